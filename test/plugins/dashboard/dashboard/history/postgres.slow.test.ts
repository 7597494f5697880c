/** The health over time of several gateways on one PostgreSQL. */
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { startTestGateway, type TestGateway } from "../../../../../plugins/contracts/testing.ts";
import { HistoryRecorder } from "../../../../../plugins/dashboard/dashboard/history/recorder.ts";
import {
  createHistoryStore,
  keepMs,
  type HistoryRow,
  type HistoryStore,
} from "../../../../../plugins/dashboard/dashboard/history/store.ts";
import { createMetrics } from "../../../../../src/base/metrics.ts";
import { openPostgres } from "../../../../../src/store/postgres/postgres.ts";
import { postgresSql } from "../../../../../src/store/sql/postgres-sql.ts";
import { createSeal } from "../../../../../src/store/seal.ts";
import { manualClock } from "../../../../../src/testing/clock.ts";
import { startFaultProxy } from "../../../../store/fault-proxy.ts";
import { createDatabase, runSql } from "../../../../store/servers.ts";
import { until, upgrade } from "../../../billing/shipping/fixture.ts";
import { ask, call, pipeline, signIn } from "../gateway.ts";
import { noon, settledExchange } from "./settled-exchange.ts";
import { keptLog } from "../../../../test-log.ts";

const secret = "a secret of these gateways";
const all = { span: "minute", kind: "route", from: 0, to: noon + 1 } as const;

async function database(t: TestContext): Promise<string> {
  const url = await createDatabase(t);
  await upgrade(url, createSeal(secret));
  return url;
}

/** Opens the store of one start of a gateway. */
function openStore(t: TestContext, url: string): HistoryStore {
  const opened = openPostgres({
    url,
    replica: "one",
    metrics: createMetrics(),
    statementMs: 2_000,
  });
  t.after(() => opened.close());
  return createHistoryStore(postgresSql(opened, "history"));
}

function row(sum: string, more: Partial<HistoryRow> = {}): HistoryRow {
  return { span: "minute", at: noon, kind: "route", name: "/a", sum, ...more };
}

async function sums(store: HistoryStore): Promise<string[]> {
  return (await store.read(all)).map(({ sum }) => sum).toSorted();
}

test("gateways do not replace each other's rows, and each replaces its own", async (t) => {
  const url = await database(t);
  const [one, two] = [openStore(t, url), openStore(t, url)];
  await one.write([row("one")]);
  await two.write([row("two"), row("other route", { name: "/b" }), row("hour", { span: "hour" })]);
  assert.deepEqual(await sums(one), ["one", "other route", "two"]);
  await one.write([row("one, later")]);
  assert.deepEqual(await sums(two), ["one, later", "other route", "two"]);
  const hours = await one.read({ ...all, span: "hour" });
  assert.deepEqual(hours, [row("hour", { span: "hour" })]);
  assert.deepEqual(await one.read({ ...all, to: noon }), []);
  assert.deepEqual(await one.read({ ...all, kind: "model" }), []);
});

test("old rows of all gateways are deleted", async (t) => {
  const url = await database(t);
  const [one, two] = [openStore(t, url), openStore(t, url)];
  const { minute, hour } = keepMs;
  await one.write([row("new"), row("old", { at: noon - minute - 1 })]);
  await two.write([
    row("limit", { at: noon - minute }),
    row("old hour", { span: "hour", at: noon - hour - 1 }),
    row("new hour", { span: "hour", at: noon - hour }),
  ]);
  await one.prune(noon);
  assert.deepEqual(await sums(one), ["limit", "new"]);
  const hours = await one.read({ ...all, span: "hour" });
  assert.deepEqual(
    hours.map(({ sum }) => sum),
    ["new hour"],
  );
});

test("while PostgreSQL does not answer, the sums wait, and a message is logged once", async (t) => {
  const url = await database(t);
  await using proxy = await startFaultProxy(Number(new URL(url).port));
  const through = new URL(url);
  through.port = String(proxy.port);
  const clock = manualClock(noon);
  const { log, lines } = keptLog();
  const recorder = new HistoryRecorder({ store: openStore(t, through.href), clock, log });
  t.after(() => recorder.close());
  recorder.settled(settledExchange());
  proxy.refuses = true;
  proxy.reset();
  await recorder.flush();
  await recorder.flush();
  assert.deepEqual(lines, ["error health over time: cannot store the last minutes"]);
  await assert.rejects(recorder.read(all));
  recorder.settled(settledExchange());
  proxy.refuses = false;
  const reader = openStore(t, url);
  await until(async () => {
    await recorder.flush();
    return (await reader.read(all)).length > 0;
  });
  const [stored] = await reader.read(all);
  assert.equal(JSON.parse(stored?.sum ?? "{}").n, 2);
});

function start(url: string, name: string): Promise<TestGateway> {
  return startTestGateway({
    pipeline,
    env: { DATABASE_URL: url, GATEWAY_SECRET: secret, REPLICA_NAME: name },
    account: { capabilities: ["platform:admin", "ledger:read"] },
  });
}

test("the view adds up the requests of all gateways, also of those that have stopped or started again", async (t) => {
  const url = await database(t);
  await using one = await start(url, "one");
  for (let starts = 0; starts < 2; starts++) {
    // It stores its sums when it stops.
    await using two = await start(url, "two");
    assert.equal(await call(two, one.key), 200);
    assert.equal(await call(two, undefined), 401);
  }
  assert.equal(await call(one, one.key), 200);
  const rows = await runSql(url, "SELECT DISTINCT gateway FROM sluice.history");
  assert.equal(rows.length, 2);
  const cookie = await signIn(one, one.key);
  for (const range of ["1h", "30d"]) {
    const { body } = await ask(one, `history?range=${range}&by=route`, { cookie });
    assert.deepEqual([body.total.requests, body.total.codes], [5, { GATEWAY_UNAUTHORIZED: 2 }]);
    assert.deepEqual(
      body.names.map(({ name, requests }: { name: string; requests: number }) => [name, requests]),
      [["/call", 5]],
    );
    assert.ok(body.total.p95_ms > 0);
  }
});
