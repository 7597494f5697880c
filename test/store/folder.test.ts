/** Tests of the data folder: its lock and modes, claims and `host.storage` on it, and tokens sealed with its secret. */
import assert from "node:assert/strict";
import { statSync, existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, describe, it } from "node:test";
import { createHmac } from "node:crypto";
import * as fc from "fast-check";
import { lockStore } from "../../src/store/lock.ts";
import { StoreError } from "../../src/store/store-error.ts";
import { temporaryFolder } from "./folder.ts";
import { runModule, sourceUrl } from "./run-module.ts";
import { makeFolder } from "../../src/store/make-folder.ts";
import { openClaims } from "../../src/store/claims.ts";
import { manualClock } from "../../src/testing/clock.ts";
import { silentLog } from "../test-log.ts";
import { openFolderSql } from "./open-sql.ts";
import { createSession } from "../../src/store/session.ts";
import { noEntries, storageOf } from "../../src/store/plugin-entries.ts";
import { createPluginEntries } from "../../src/store/plugin-storage.ts";
import { createSeal, readOrCreateSecret } from "../../src/store/seal.ts";

const inUse = (error: unknown): boolean =>
  error instanceof StoreError && error.code === "SLUICE_STORE_IN_USE" && error.remedy !== "";

/** Code for another process that locks the folder and prints `held`, or the code of the refusal. */
function taking(folder: string): string {
  return `
    const { lockStore } = await import(${JSON.stringify(sourceUrl("src/store/lock.ts"))});
    try {
      globalThis.lock = lockStore(${JSON.stringify(folder)});
      console.log("held");
    } catch (error) {
      console.log(error.code);
    }`;
}

test("one process locks the folder, and disposing releases it", async (t) => {
  const folder = join(temporaryFolder(t), "data");
  const lock = lockStore(folder);
  assert.throws(() => lockStore(folder), inUse);
  assert.equal((await runModule(taking(folder))).out, "SLUICE_STORE_IN_USE\n");
  lock[Symbol.dispose]();
  lock[Symbol.dispose]();
  assert.equal((await runModule(taking(folder))).out, "held\n");
  lockStore(folder)[Symbol.dispose]();
  assert.equal(statSync(join(folder, "gateway.lock")).mode & 0o777, 0o600);
});

test("creates a folder and its missing parent folders with private modes", (t) => {
  const root = temporaryFolder(t);
  makeFolder(join(root, "a", "b", "c"));
  for (const path of ["a", "a/b", "a/b/c"]) {
    assert.equal(statSync(join(root, path)).mode & 0o777, 0o700, path);
  }
});

// D17: Node's recursive mkdir never returns there. The call runs in another process, so that an endless loop ends only
// this test.
test(
  "throws at once if the system cannot create folders",
  { skip: !existsSync("/proc/self") },
  async () => {
    const module = `
    import { makeFolder } from ${JSON.stringify(sourceUrl("src/store/make-folder.ts"))};
    try { makeFolder("/proc/x/y"); } catch (error) { console.log(error.code); }`;
    const { out } = await runModule(module);
    assert.equal(out, "ENOENT\n");
  },
);

/** Code for another process that opens the claims of the folder as `claims` and runs `code`. */
function withClaims(folder: string, code: string): string {
  return `
    const { openClaims } = await import(${JSON.stringify(sourceUrl("src/store/claims.ts"))});
    const { withFolderSql } = await import(${JSON.stringify(sourceUrl("test/store/open-sql.ts"))});
    const { createSession } = await import(${JSON.stringify(sourceUrl("src/store/session.ts"))});
    const { silentLog } = await import(${JSON.stringify(sourceUrl("test/test-log.ts"))});
    const { systemClock } = await import(${JSON.stringify(sourceUrl("src/base/clock.ts"))});
    await withFolderSql(${JSON.stringify(folder)}, async (sql) => {
      const claims = await openClaims(sql, createSession(sql.query, systemClock), systemClock, silentLog);
      ${code}
      claims.close();
    });`;
}

test("claims and endings are deleted some time after their end and never before it", async (t) => {
  const clock = manualClock();
  const sql = await openFolderSql(t, temporaryFolder(t), clock);
  const claims = await openClaims(sql, createSession(sql.query, clock), clock, silentLog);
  t.after(() => claims.close());
  const stored = async (): Promise<unknown[]> => {
    await sql.idle();
    const all = "SELECT id FROM sluice.claims UNION ALL SELECT id FROM sluice.endings ORDER BY id";
    return (await sql.query(all)).map(({ id }) => id);
  };
  await claims.claim("a short claim", clock.now() + 60_000);
  await claims.claim("b long claim", clock.now() + 600_000);
  await claims.end("c short session", clock.now() + 60_000);
  await claims.end("d long session", clock.now() + 600_000);
  clock.advance(59_999);
  assert.equal((await stored()).length, 4);
  assert.equal(claims.hasEnded("c short session"), true);
  clock.advance(60_001);
  assert.deepEqual(await stored(), ["b long claim", "d long session"]);
  const ended = ["c short session", "d long session"].map((id) => claims.hasEnded(id));
  assert.deepEqual(ended, [false, true]);
  clock.advance(600_000);
  assert.deepEqual(await stored(), []);
  assert.equal(claims.hasEnded("d long session"), false);
});

test("a granted claim survives SIGKILL", async (t) => {
  const folder = temporaryFolder(t);
  const code = `await claims.claim("a", Date.now() + 60_000); process.kill(process.pid, "SIGKILL");`;
  await runModule(withClaims(folder, code));
  const clock = manualClock();
  const sql = await openFolderSql(t, folder, clock);
  const claims = await openClaims(sql, createSession(sql.query, clock), clock, silentLog);
  t.after(() => claims.close());
  assert.equal(await claims.claim("a", clock.now() + 60_000), false);
});

test("every method rejects after the stop", async (t) => {
  const sql = await openFolderSql(t, temporaryFolder(t));
  const storage = storageOf("acme", createPluginEntries(sql));
  await storage.set("a", "b");
  await sql.close();
  const stopped = /the gateway has stopped/;
  await assert.rejects(storage.get("a"), stopped);
  await assert.rejects(storage.set("a", "b"), stopped);
  await assert.rejects(storage.delete("a"), stopped);
  await assert.rejects(storage.list(), stopped);
});

test("a dry run keeps nothing", async () => {
  const storage = storageOf("acme", noEntries);
  await storage.set("a", "b");
  await storage.delete("a");
  assert.deepEqual([await storage.get("a"), await storage.list()], [undefined, []]);
});

const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

describe("a sealed token", () => {
  const seal = createSeal("one secret");

  it("opens to the sealed value for its purpose and with its secret", () => {
    fc.assert(
      fc.property(
        fc.dictionary(fc.string(), fc.jsonValue()),
        fc.string(),
        fc.nat(),
        (given, purpose, expiresAt) => {
          const value: unknown = JSON.parse(JSON.stringify(given));
          const token = seal.seal(purpose, given, expiresAt);
          assert.match(token, /^[\w-]+\.[\w-]+$/);
          assert.deepEqual(createSeal("one secret").open(purpose, token), { value, expiresAt });
          assert.equal(seal.open(`${purpose}.`, token), undefined);
          assert.equal(createSeal("another").open(purpose, token), undefined);
        },
      ),
      { numRuns: 200 },
    );
  });

  it("does not open if a character is changed, removed or added", () => {
    const token = seal.seal("session", { key: "key_1" }, 1);
    for (let at = 0; at < token.length; at++) {
      for (const other of `${alphabet}.= `) {
        if (other === token[at]) continue;
        const forged = token.slice(0, at) + other + token.slice(at + 1);
        assert.equal(seal.open("session", forged), undefined, forged);
      }
      assert.equal(seal.open("session", token.slice(0, at) + token.slice(at + 1)), undefined);
    }
    for (const more of ["=", "A", ".", "\n", "%"]) {
      assert.equal(seal.open("session", token + more), undefined);
      assert.equal(seal.open("session", more + token), undefined);
    }
  });

  it("cannot be guessed", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary", maxLength: 200 }), (text) => {
        assert.equal(seal.open("session", text), undefined);
      }),
      { numRuns: 200 },
    );
    for (const text of ["", ".", "..", "e30.", ".e30", "e30.e30"]) {
      assert.equal(seal.open("session", text), undefined);
    }
  });
});

describe("the secret of a data folder", () => {
  it("is created once, random and readable only by its owner, and kept across restarts", async (t) => {
    const folder = temporaryFolder(t);
    const secret = readOrCreateSecret(folder);
    assert.match(secret, /^[0-9a-f]{64}$/);
    assert.equal(readOrCreateSecret(folder), secret);
    assert.deepEqual(readdirSync(folder), ["secret"]);
    assert.equal(statSync(join(folder, "secret")).mode & 0o777, 0o600);
    assert.notEqual(readOrCreateSecret(temporaryFolder(t)), secret);
    const code = `
      const { createSeal, readOrCreateSecret } = await import(${JSON.stringify(sourceUrl("src/store/seal.ts"))});
      console.log(createSeal(readOrCreateSecret(${JSON.stringify(folder)})).seal("session", { a: 1 }, 5));`;
    const { out } = await runModule(code);
    const opened = createSeal(secret).open("session", out.trim());
    assert.deepEqual(opened, { value: { a: 1 }, expiresAt: 5 });
  });

  it("is the same for two processes that start at once", async (t) => {
    const folder = temporaryFolder(t);
    const code = `
      const { readOrCreateSecret } = await import(${JSON.stringify(sourceUrl("src/store/seal.ts"))});
      console.log(readOrCreateSecret(${JSON.stringify(folder)}));`;
    const both = await Promise.all([runModule(code), runModule(code)]);
    const secret = readFileSync(join(folder, "secret"), "utf8");
    assert.deepEqual(
      both.map(({ out }) => out.trim()),
      [secret, secret],
    );
    assert.deepEqual(readdirSync(folder), ["secret"]);
  });

  it("is refused if the file is too short", (t) => {
    const folder = temporaryFolder(t);
    for (const text of ["", "\n", "short"]) {
      writeFileSync(join(folder, "secret"), text);
      assert.throws(
        () => readOrCreateSecret(folder),
        (error) => error instanceof StoreError && error.code === "SLUICE_STORE_CORRUPT",
      );
    }
  });

  it("reports what is wrong with a folder in which it cannot be stored", (t) => {
    assert.throws(
      () => readOrCreateSecret(join(temporaryFolder(t), "nowhere")),
      (error) => error instanceof StoreError && error.remedy !== "",
    );
  });
});

describe("a key of the deployment", () => {
  it("depends on the secret and the purpose, and never changes", () => {
    const key = createSeal("one secret").key("a purpose");
    const known = createHmac("sha256", "one secret").update("a purpose").digest();
    assert.deepEqual(key, known);
    assert.notDeepEqual(createSeal("another secret").key("a purpose"), key);
    assert.notDeepEqual(createSeal("one secret").key("another purpose"), key);
  });
});
