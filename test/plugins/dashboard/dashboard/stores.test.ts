/** Tests of the readers of shared stores and of other gateways, which do not answer. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { storeStates } from "../../../../plugins/dashboard/dashboard/stores.ts";
import type { Postgres, Redis, Store, Replicas } from "../../../../src/plugin.ts";
import { noSql } from "../../../../src/store/sql/work.ts";
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
