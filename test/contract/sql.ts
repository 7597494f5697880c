/** Tests of every implementation of `host.store.sql`. Two gateways share the store. */
import assert from "node:assert/strict";
import { describe, test, type TestContext } from "node:test";
import type { Awaitable, RunSql, Sql } from "sluice-gateway/plugin";
import { StoreError } from "../../src/store/store-error.ts";

export interface OpenSql {
  readonly one: Sql;
  readonly other: Sql;
  /** Time of the store, in milliseconds since 1970. */
  readonly now: () => number;
}

const insert = "INSERT INTO sluice.claims (id, until) VALUES ($1, $2)";
const idsOf = "SELECT id FROM sluice.claims";

export function describeSql(name: string, open: (t: TestContext) => Awaitable<OpenSql>): void {
  describe(`tables: ${name}`, () => {
    const ids = async (sql: Sql): Promise<string[]> =>
      (await sql.query(idsOf)).map(({ id }) => String(id)).toSorted();

    test("rows are seen by every gateway, with their values", async (t) => {
      const { one, other } = await open(t);
      const largest = Number.MAX_SAFE_INTEGER;
      const put = "INSERT INTO sluice.claims (id, until) VALUES ($1, $2), ($3, $4) RETURNING until";
      const rows = await one.query(put, ["größe 😀", largest, "it's; --", -1]);
      assert.deepEqual(
        rows.map(({ until }) => until),
        [largest, -1],
      );
      assert.deepEqual(await ids(other), ["größe 😀", "it's; --"]);
      const bytes = Buffer.from([0, 255, 10]);
      await one.query(
        "INSERT INTO sluice.plugin_storage (plugin, key, value) VALUES ($1, $2, $3)",
        ["acme", "a", bytes],
      );
      const [entry] = await other.query("SELECT value, NULL AS missing FROM sluice.plugin_storage");
      assert.deepEqual(
        [Buffer.from(entry?.["value"] as Uint8Array), entry?.["missing"]],
        [bytes, null],
      );
    });

    test("the store has a time", async (t) => {
      const { one, now } = await open(t);
      assert.deepEqual(await one.query("SELECT sluice.now_ms() AS now"), [{ now: now() }]);
    });

    test("a statement that fails rejects with a StoreError, and changes nothing", async (t) => {
      const { one } = await open(t);
      await one.query(insert, ["a", 1]);
      const two = "INSERT INTO sluice.claims (id, until) VALUES ('b', 1), ('a', 2)";
      for (const [text, values] of [
        [two, []],
        [insert, ["b", null]],
        ["SELECT nonsense", []],
        ["nonsense", []],
      ] as const) {
        await assert.rejects(one.query(text, values), StoreError, text);
      }
      assert.deepEqual(await ids(one), ["a"]);
    });

    test("a transaction returns what its work returns, and is seen by others when it has ended", async (t) => {
      const { one, other } = await open(t);
      const found = await one.transaction(async (run) => {
        await run(insert, ["a", 1]);
        await run(insert, ["b", 1]);
        assert.deepEqual(await ids(other), []);
        return (await run(idsOf)).length;
      });
      assert.equal(found, 2);
      assert.deepEqual(await ids(other), ["a", "b"]);
    });

    test("a transaction whose work fails commits nothing, and rejects with the same error", async (t) => {
      const { one, other } = await open(t);
      const wrong = new Error("changed my mind");
      const work = async (run: RunSql): Promise<void> => {
        await run(insert, ["a", 1]);
        throw wrong;
      };
      await assert.rejects(one.transaction(work), (error) => error === wrong);
      assert.deepEqual(await ids(other), []);
    });

    test("a transaction with a statement that failed fails, even if its work goes on", async (t) => {
      const { one, other } = await open(t);
      const work = async (run: RunSql): Promise<string> => {
        await run(insert, ["a", 1]);
        await run(insert, ["a", 1]).catch(() => {});
        await run(insert, ["b", 1]).catch(() => {});
        return "done";
      };
      await assert.rejects(one.transaction(work), StoreError);
      assert.deepEqual(await ids(other), []);
    });

    test("the statements of a transaction fail after its end", async (t) => {
      const { one } = await open(t);
      let kept: RunSql | undefined;
      await one.transaction(async (run) => {
        kept = run;
        await run(insert, ["a", 1]);
      });
      await assert.rejects(async () => kept?.(insert, ["b", 1]), /has ended/);
      assert.deepEqual(await ids(one), ["a"]);
    });

    test("transactions at the same time do not lose changes of a row", async (t) => {
      const { one, other } = await open(t);
      await one.query(insert, ["sum", 0]);
      const add = "UPDATE sluice.claims SET until = until + 1 WHERE id = 'sum' RETURNING until";
      await Promise.all(
        Array.from({ length: 20 }, (_, n) =>
          (n % 2 === 0 ? one : other).transaction(async (run) => {
            await run(add);
            await run(insert, [`part ${n}`, 1]);
          }),
        ),
      );
      assert.deepEqual(await one.query("SELECT until FROM sluice.claims WHERE id = 'sum'"), [
        { until: 20 },
      ]);
      assert.equal((await ids(one)).length, 21);
    });
  });
}
