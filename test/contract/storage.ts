/** Tests of every implementation of `host.storage`. Two gateways share the store. */
import assert from "node:assert/strict";
import { describe, test, type TestContext } from "node:test";
import type { Awaitable } from "sluice-gateway/plugin";
import { storageOf, type PluginEntries } from "../../src/store/plugin-entries.ts";

export interface OpenStorage {
  readonly one: PluginEntries;
  readonly other: PluginEntries;
  readonly restart: () => Awaitable<PluginEntries>;
  /** Adds entries of the plugin "acme" with the keys `n1`, `n2` … */
  readonly fill: (count: number) => Awaitable<void>;
}

export function describeStorage(
  name: string,
  open: (t: TestContext) => Awaitable<OpenStorage>,
): void {
  describe(`storage: ${name}`, () => {
    test("a value is returned on any gateway and after a restart, until it is replaced or deleted", async (t) => {
      const { one, other, restart } = await open(t);
      const [acme, others] = [storageOf("acme", one), storageOf("acme", other)];
      assert.equal(await acme.get("a"), undefined);
      await acme.set("a", "first");
      assert.equal(await others.get("a"), "first");
      await others.set("a", "second");
      assert.equal(await acme.get("a"), "second");
      assert.equal(await storageOf("acme", await restart()).get("a"), "second");
    });

    test("a deleted key has no value, and deleting it again is not an error", async (t) => {
      const { one, other } = await open(t);
      const acme = storageOf("acme", one);
      await acme.set("a", "");
      assert.equal(await acme.get("a"), "");
      await storageOf("acme", other).delete("a");
      await acme.delete("a");
      assert.deepEqual([await acme.get("a"), await acme.list()], [undefined, []]);
    });

    test("plugins do not see each other's entries", async (t) => {
      const { one } = await open(t);
      const [acme, zeta] = [storageOf("acme", one), storageOf("zeta", one)];
      await acme.set("a", "of acme");
      await zeta.set("a", "of zeta");
      await zeta.delete("a");
      assert.equal(await acme.get("a"), "of acme");
      assert.deepEqual([await acme.list(), await zeta.list()], [["a"], []]);
    });

    test("keys are listed by prefix in the order of code points", async (t) => {
      const acme = storageOf("acme", (await open(t)).one);
      // In UTF-16, the last two would be in the other order.
      const keys = ["B", "a%", "a/1", "a/10", "a/2", "a_", "é", "\uff5e", "😀"];
      for (const key of keys.toReversed()) await acme.set(key, key);
      assert.deepEqual(await acme.list(), keys);
      assert.deepEqual(await acme.list("a/"), ["a/1", "a/10", "a/2"]);
      assert.deepEqual(await acme.list("a%"), ["a%"]);
      assert.deepEqual(await acme.list("😀"), ["😀"]);
      assert.deepEqual(await acme.list("A"), []);
    });

    test("every text is returned as it was stored, up to the limits", async (t) => {
      const acme = storageOf("acme", (await open(t)).one);
      const texts = ["\0", "'; DROP", "\\x00", "😀\r\n", "x".repeat(65_536), "é".repeat(32_768)];
      const key = "é".repeat(256);
      for (const text of texts) {
        await acme.set(key, text);
        assert.equal(await acme.get(key), text);
      }
    });

    test("a key or value outside of the limits is refused and changes nothing", async (t) => {
      const acme = storageOf("acme", (await open(t)).one);
      for (const key of ["", "a\0", "\ud800", "é".repeat(257), 1 as never, undefined as never]) {
        const refused = refusal("SLUICE_STORAGE_KEY");
        await assert.rejects(acme.get(key), refused);
        await assert.rejects(acme.set(key, "a"), refused);
        await assert.rejects(acme.delete(key), refused);
      }
      await assert.rejects(acme.list("\0"), refusal("SLUICE_STORAGE_KEY"));
      for (const value of ["é".repeat(32_769), "\udc00", 1 as never, {} as never]) {
        await assert.rejects(acme.set("a", value), refusal("SLUICE_STORAGE_VALUE"));
      }
      assert.deepEqual(await acme.list(), []);
    });

    test("a plugin with 10,000 entries can replace and delete them, and add none", async (t) => {
      const { one, fill } = await open(t);
      await fill(9_999);
      const [acme, zeta] = [storageOf("acme", one), storageOf("zeta", one)];
      await acme.set("last", "1");
      await assert.rejects(acme.set("more", "1"), refusal("SLUICE_STORAGE_FULL"));
      await acme.set("last", "2");
      assert.equal(await acme.get("last"), "2");
      await zeta.set("more", "1");
      await acme.delete("n1");
      await acme.set("more", "1");
      assert.equal((await acme.list()).length, 10_000);
    });
  });
}

function refusal(code: string): (error: unknown) => boolean {
  return (error) => error instanceof Error && "code" in error && error.code === code;
}
