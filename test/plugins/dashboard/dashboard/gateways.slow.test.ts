/** The dashboard and `sluice explain` with several gateways on one PostgreSQL, and while it does not answer. */
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import type { Capability } from "../../../../plugins/contracts/index.ts";
import { startTestGateway, type TestGateway } from "../../../../plugins/contracts/testing.ts";
import { startFaultProxy } from "../../../store/fault-proxy.ts";
import { runSql } from "../../../store/servers.ts";
import { createUpgradedDatabase } from "../../../store/upgraded-database.ts";
import { until } from "../../billing/shipping/fixture.ts";
import { ask, call, pipeline, signIn } from "./gateway.ts";
import { HistoryRecorder } from "../../../../plugins/dashboard/dashboard/history/recorder.ts";
import {
  createHistoryStore,
  type HistoryStore,
} from "../../../../plugins/dashboard/dashboard/history/store.ts";
import { createMetrics } from "../../../../src/base/metrics.ts";
import { openPostgres } from "../../../../src/store/postgres/postgres.ts";
import { postgresSql } from "../../../../src/store/sql/postgres-sql.ts";
import { manualClock } from "../../../../src/testing/clock.ts";
import { noon, settledExchange } from "./settled-exchange.ts";
import { keptLog } from "../../../test-log.ts";

const secret = "a secret of these gateways";

async function database(t: TestContext): Promise<string> {
  const url = await createUpgradedDatabase(t, secret);
  return url;
}

function start(
  url: string,
  name: string,
  capabilities: readonly Capability[] = ["platform:admin", "ledger:read"],
  text = pipeline,
): Promise<TestGateway> {
  return startTestGateway({
    pipeline: text,
    env: { DATABASE_URL: url, GATEWAY_SECRET: secret, REPLICA_NAME: name },
    account: { capabilities },
  });
}

const died = "INSERT INTO sluice.gateways VALUES ('x', 'three', '1', sluice.now_ms() - 60000)";

test("live adds up the activity of all gateways, and shows a dead one as missing", async (t) => {
  const url = await database(t);
  await using one = await start(url, "one");
  await using two = await start(url, "two");
  await runSql(url, died);
  const cookie = await signIn(one, one.key);
  const before = (await ask(one, "live", { cookie })).body;
  assert.equal(before.totals.requests, 0);
  await call(one, one.key);
  await call(two, one.key);
  await call(two, undefined);
  const { body } = await ask(one, "live", { cookie });
  assert.deepEqual(body.totals, { requests: 3, refused: 1, failed: 0 });
  assert.equal(
    body.requests.reduce((sum: number, n: number) => sum + n, 0),
    3,
  );
  assert.deepEqual(body.exchanges.map(({ gateway }: { gateway: string }) => gateway).toSorted(), [
    "one",
    "two",
    "two",
  ]);
  assert.deepEqual(body.gateways, [
    { name: "one", answered: true },
    { name: "three", answered: false },
    { name: "two", answered: true },
  ]);
  assert.ok(body.p50_ms > 0);
  assert.ok(body.wrong.includes("three does not answer"));
  assert.deepEqual([body.ready, body.complete], [true, true]);
});

test("health shows every gateway with its stores and its credit", async (t) => {
  const url = await database(t);
  await using one = await start(url, "one");
  await using _two = await start(url, "two");
  await runSql(url, died);
  const { body } = await ask(one, "health", { cookie: await signIn(one, one.key) });
  const [own, three, two] = body.gateways;
  assert.deepEqual([own.name, own.own, own.state, own.postgres], ["one", true, "ready", true]);
  assert.deepEqual([two.name, two.own, two.state, two.postgres], ["two", false, "ready", true]);
  assert.equal(two.version, own.version);
  assert.equal(typeof two.slack_cu_milli, "number");
  assert.equal(two.redis, undefined);
  assert.deepEqual(
    [three.name, three.state, three.heard_seconds_ago >= 60],
    ["three", "no answer", true],
  );
});

test("while PostgreSQL cannot be reached, explain finds the requests of its own gateway", async (t) => {
  const url = await database(t);
  await using proxy = await startFaultProxy(Number(new URL(url).port));
  const through = new URL(url);
  through.port = String(proxy.port);
  await using one = await start(through.href, "one");
  const headers = { authorization: `Bearer ${one.key}`, "x-request-id": "r-1" };
  await (await fetch(`${one.url}/call`, { headers })).arrayBuffer();
  proxy.refuses = true;
  proxy.reset();
  const answer = await fetch(`${one.adminUrl}/explain?id=r-1`);
  const { exchanges, missing } = (await answer.json()) as Record<string, unknown[]>;
  assert.deepEqual([exchanges?.length, missing], [1, ["all other gateways"]]);
  proxy.refuses = false;
});

test("explain finds a request that another gateway has handled", async (t) => {
  const url = await database(t);
  await using one = await start(url, "one");
  await using two = await start(url, "two", ["workspace:admin", "ledger:read"]);
  const headers = { authorization: `Bearer ${one.key}`, "x-request-id": "r-1" };
  await (await fetch(`${two.url}/call`, { headers })).arrayBuffer();
  const find = (id: string): Promise<Response> => fetch(`${one.adminUrl}/explain?id=${id}`);
  await until(async () => (await find("r-1")).status === 200);
  const found = (await (await find("r-1")).json()) as { exchanges: { replica: string }[] };
  assert.deepEqual(
    found.exchanges.map(({ replica }) => replica),
    ["two"],
  );
  const shown = await ask(one, "explain?id=r-1", { cookie: await signIn(one, one.key) });
  assert.equal(shown.body.exchanges[0].replica, "two");
  // The administrator of a workspace does not see the names of the gateways.
  const own = { authorization: `Bearer ${two.key}`, "x-request-id": "r-3" };
  await (await fetch(`${two.url}/call`, { headers: own })).arrayBuffer();
  const cookie = await signIn(one, two.key);
  await until(async () => (await ask(one, "explain?id=r-3", { cookie })).status === 200);
  const { body } = await ask(one, "explain?id=r-3", { cookie });
  assert.deepEqual(
    [body.exchanges.length, body.exchanges[0].replica, body.missing],
    [1, undefined, undefined],
  );
  await runSql(url, died);
  const none = await find("r-2");
  assert.equal(none.status, 404);
  assert.deepEqual(((await none.json()) as { details: object }).details, { missing: ["three"] });
  const partly = (await (await find("r-1")).json()) as { missing: string[] };
  assert.deepEqual(partly.missing, ["three"]);
});

test("gateways on one database show their leases, and whether their files are equal", async (t) => {
  const url = await database(t);
  await using one = await start(url, "one");
  await using _two = await start(url, "two");
  await using _three = await start(url, "three", undefined, `${pipeline}# a comment\n`);
  const cookie = await signIn(one, one.key);
  assert.equal(await call(one, one.key), 200);
  const gateways = async () => (await ask(one, "health", { cookie })).body.gateways;
  await until(async () => (await gateways())[0].leased_scopes > 0);
  const [own, three, two] = await gateways();
  assert.ok(own.slack_cu_milli > 0);
  assert.deepEqual([two.leased_scopes, two.slack_cu_milli, two.reserved_cu_milli], [0, 0, 0]);
  assert.deepEqual([own.same_file, three.same_file, two.same_file], [true, false, true]);
  assert.deepEqual([own.reload_refused, two.reload_refused], [false, false]);

  const { body } = await ask(one, "stores", { cookie });
  const postgres = body.stores.find(({ kind }: { kind: string }) => kind === "PostgreSQL");
  assert.deepEqual([postgres.up, postgres.schema_version > 0], [true, true]);
});

const allRoutes = { span: "minute", kind: "route", from: 0, to: noon + 1 } as const;

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
  await assert.rejects(recorder.read(allRoutes));
  recorder.settled(settledExchange());
  proxy.refuses = false;
  const reader = openStore(t, url);
  await until(async () => {
    await recorder.flush();
    return (await reader.read(allRoutes)).length > 0;
  });
  const [stored] = await reader.read(allRoutes);
  assert.equal(JSON.parse(stored?.sum ?? "{}").n, 2);
});
