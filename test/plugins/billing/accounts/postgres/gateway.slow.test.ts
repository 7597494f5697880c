/** Whole gateways whose accounts are in PostgreSQL. */
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { startTestGateway, type TestGateway } from "../../../../../plugins/contracts/testing.ts";
import { keys } from "../../../../../plugins/billing/commands/keys.ts";
import type { Clock } from "../../../../../src/plugin.ts";
import { createSeal } from "../../../../../src/store/seal.ts";
import { manualClock } from "../../../../../src/testing/clock.ts";
import { commandLine } from "../../../../commands/command-line.ts";
import { startFaultProxy } from "../../../../store/fault-proxy.ts";
import { createDatabase, runSql } from "../../../../store/servers.ts";
import { until, upgrade } from "../../shipping/fixture.ts";

/** The secret of `commandLine`. */
const secret = "at-least-sixteen-characters";
const pipeline = `version: 1
secret: ${secret}
server: { port: "\${PORT}" }
admin: { port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}", postgres: "\${DATABASE_URL}" }
routes:
  - path: /call
    methods: [GET]
    run: [request-id, authenticate, { authorize: { require: key } }]
    to: discovery
  - path: "/workspaces/{id}/purchase"
    methods: [POST]
    run: [request-id, authenticate, idempotency, { authorize: { require: "workspace:admin" } }]
    to: { workspaces: { do: purchase } }
`;

async function start(url: string, clock?: Clock): Promise<TestGateway> {
  return startTestGateway({
    pipeline,
    env: { DATABASE_URL: url },
    account: { capabilities: ["workspace:admin"] },
    ...(clock !== undefined && { clock }),
  });
}

async function preparedDatabase(t: TestContext): Promise<string> {
  const url = await createDatabase(t);
  await upgrade(url, createSeal(secret));
  return url;
}

async function call({ url }: TestGateway, key: string): Promise<number> {
  const response = await fetch(`${url}/call`, { headers: { authorization: `Bearer ${key}` } });
  await response.text();
  return response.status;
}

async function purchase(gateway: TestGateway, idempotencyKey: string): Promise<Response> {
  return fetch(`${gateway.url}/workspaces/${gateway.workspaceId}/purchase`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${gateway.key}`,
      "content-type": "application/json",
      "idempotency-key": `gateway_${idempotencyKey}`,
    },
    body: JSON.stringify({ amount_cu_milli: 5 }),
  });
}

test("accounts and idempotency outlive the data folder, and commands change them", async (t) => {
  const url = await preparedDatabase(t);
  const { json, run } = commandLine(t, "dev", { DATABASE_URL: url });
  let first: TestGateway | undefined;
  let bought = "";
  {
    await using gateway = await start(url);
    first = gateway;
    assert.equal(await call(gateway, gateway.key), 200);
    const response = await purchase(gateway, "five");
    assert.equal(response.status, 200);
    bought = await response.text();
  }
  // The second gateway has another data folder.
  await using gateway = await start(url);
  assert.equal(await call(gateway, first.key), 200);
  const again = await purchase({ ...gateway, ...first, url: gateway.url }, "five");
  assert.equal(await again.text(), bought);
  const [{ count } = {}] = await runSql(url, "SELECT count(*)::int AS count FROM sluice.purchases");
  assert.equal(count, 1);

  const made = await json(keys, "create", "--workspace", first.workspaceId);
  assert.equal(await call(gateway, String(made["key"])), 200);
  assert.equal((await run(keys, "revoke", first.keyId)).code, 0);
  await until(async () => (await call(gateway, first.key)) === 401);
});

test("while PostgreSQL is away, keys in memory work for 5 seconds, and changes are answered with 503", async (t) => {
  const url = await preparedDatabase(t);
  await using proxy = await startFaultProxy(Number(new URL(url).port));
  const through = new URL(url);
  through.port = String(proxy.port);
  const clock = manualClock(Date.now());
  await using gateway = await start(through.href, clock);
  assert.equal(await call(gateway, gateway.key), 200);

  proxy.refuses = true;
  proxy.reset();
  clock.advance(4_000);
  assert.equal(await call(gateway, gateway.key), 200);
  assert.equal((await fetch(`${gateway.url}/readyz`)).status, 200);
  const refused = await purchase(gateway, "fails-first");
  assert.equal(refused.status, 503, await refused.text());
  clock.advance(1_500);
  assert.equal(await call(gateway, gateway.key), 503);
  assert.equal((await fetch(`${gateway.url}/readyz`)).status, 503);

  proxy.refuses = false;
  await until(async () => {
    clock.advance(250);
    return (await call(gateway, gateway.key)) === 200;
  });
  assert.equal((await fetch(`${gateway.url}/readyz`)).status, 200);
  assert.equal((await purchase(gateway, "fails-first")).status, 200);
});
