/** The dashboard and `sluice explain` with two gateways on one PostgreSQL. */
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import type { Capability } from "../../../../plugins/contracts/index.ts";
import { startTestGateway, type TestGateway } from "../../../../plugins/contracts/testing.ts";
import { createSeal } from "../../../../src/store/seal.ts";
import { startFaultProxy } from "../../../store/fault-proxy.ts";
import { createDatabase, runSql } from "../../../store/servers.ts";
import { until, upgrade } from "../../billing/shipping/fixture.ts";
import { ask, call, pipeline, signIn } from "./gateway.ts";

const secret = "a secret of these gateways";

async function database(t: TestContext): Promise<string> {
  const url = await createDatabase(t);
  await upgrade(url, createSeal(secret));
  return url;
}

function start(
  url: string,
  name: string,
  capabilities: readonly Capability[] = ["platform:admin", "ledger:read"],
): Promise<TestGateway> {
  return startTestGateway({
    pipeline,
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
