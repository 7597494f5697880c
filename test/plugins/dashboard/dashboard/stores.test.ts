/** Tests of the reader of the states of stores, for stores and gateways that do not answer. */
import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { storeStates } from "../../../../plugins/dashboard/dashboard/stores.ts";
import type { Postgres, Redis, Store, Replicas } from "../../../../src/plugin.ts";
import { noSql } from "../../../../src/store/sql/no-sql.ts";
import { openDatabase } from "../../../../src/store/sqlite.ts";
import { noSession } from "../../../../src/store/session.ts";
import { askAllGateways } from "../../../../plugins/dashboard/dashboard/other-gateways.ts";
import { keptLog } from "../../../test-log.ts";

const none: Store = {
  folder: "/no/such/folder",
  sql: () => noSql,
  session: noSession,
  postgres: undefined,
  redis: undefined,
  replicas: undefined,
};

test("the databases of the data folder have their schema version and their size", async () => {
  const folder = await mkdtemp(join(tmpdir(), "sluice-stores-"));
  try {
    openDatabase(join(folder, "one.db"), ["CREATE TABLE a (b)", "CREATE TABLE c (d)"]).close();
    await writeFile(join(folder, "two.db"), "not a database, only a text".repeat(100));
    await writeFile(join(folder, "gateway.lock"), "");
    const [one, two, ...others] = await storeStates({ ...none, folder });
    assert.deepEqual(
      [one?.kind, one?.name, one?.up, one?.schema_version],
      ["SQLite", "one.db", true, 2],
    );
    assert.ok((one?.bytes ?? 0) > 0);
    assert.deepEqual([two?.name, two?.up, two?.problem], ["two.db", false, "ERR_SQLITE_ERROR"]);
    assert.deepEqual(others, []);
  } finally {
    await rm(folder, { recursive: true });
  }
});

test("without a data folder, only the shared stores are shown", async () => {
  assert.deepEqual(await storeStates(none), []);
  // The function reads only these members.
  const postgres = {
    place: "db:5432/sluice",
    query: () => Promise.reject(Object.assign(new Error("refused"), { code: "ECONNREFUSED" })),
  } as unknown as Postgres;
  const redis = { isUp: false } as Redis;
  assert.deepEqual(await storeStates({ ...none, postgres, redis }), [
    { kind: "PostgreSQL", name: "db:5432/sluice", up: false, problem: "ECONNREFUSED" },
    { kind: "Redis", name: "store.redis", up: false },
  ]);
});

const { log, lines } = keptLog();

const own = (n: number): number => n + 1;
const ours = { name: "one", version: "1", isOwn: true, value: 2, heardMsAgo: 0 };

test("if the other gateways cannot be asked, the part of this one is still returned", async () => {
  const replicas: Replicas = {
    id: "1",
    mark() {},
    send() {},
    receive: () => ({ [Symbol.dispose]() {} }),
    ask: () => Promise.reject(new Error("away")),
  };
  using all = askAllGateways({ replicas, name: "one", version: "1", log }, "topic", own);
  const { parts, isComplete } = await all.ask(1);
  assert.deepEqual([parts, isComplete], [[ours], false]);
  assert.deepEqual(lines, ["warn dashboard: the other gateways cannot be asked"]);
});
