/** Whole gateways with `store.postgres`. */
import assert from "node:assert/strict";
import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { StartError } from "../../../../src/start-error.ts";
import { startTestGateway, type TestGateway } from "../../../../plugins/contracts/testing.ts";
import type { Clock } from "../../../../src/plugin.ts";
import { createSeal } from "../../../../src/store/seal.ts";
import { manualClock } from "../../../../src/testing/clock.ts";
import { startFaultProxy } from "../../../store/fault-proxy.ts";
import { createDatabase, runSql } from "../../../store/servers.ts";
import { assertCopied, until, upgrade } from "./fixture.ts";

const secret = "a secret of this gateway";
const pipeline = `version: 1
secret: "\${GATEWAY_SECRET}"
server: { port: "\${PORT}" }
admin: { port: "\${ADMIN_PORT}" }
store:
  data: "\${DATA_DIR}"
  postgres: "\${DATABASE_URL:-}"
  replica: gateway-a
metering: { durability: local }
routes:
  - path: /call
    methods: [GET]
    run: [request-id, authenticate, { authorize: { require: key } }, { meter: { price: 5 } }]
    to: discovery
`;

function start(
  url: string,
  more: Readonly<Record<string, string>> = {},
  clock?: Clock,
): Promise<TestGateway> {
  return startTestGateway({
    pipeline,
    ...(clock !== undefined && { clock }),
    env: { GATEWAY_SECRET: secret, DATABASE_URL: url, ...more },
  });
}

async function preparedDatabase(t: TestContext): Promise<string> {
  const url = await createDatabase(t);
  await upgrade(url, createSeal(secret));
  return url;
}

async function call({ url, key }: TestGateway): Promise<number> {
  const response = await fetch(`${url}/call`, { headers: { authorization: `Bearer ${key}` } });
  await response.text();
  return response.status;
}

test("a gateway with its own journal serves for a minute without PostgreSQL, and then refuses keys", async (t) => {
  const url = new URL(await preparedDatabase(t));
  await using proxy = await startFaultProxy(Number(url.port));
  url.port = String(proxy.port);
  const clock = manualClock();
  await using gateway = await start(url.href, {}, clock);
  assert.equal(await call(gateway), 200);
  proxy.refuses = true;
  proxy.reset();
  clock.advance(55_000);
  assert.equal(await call(gateway), 200);
  clock.advance(10_000);
  assert.equal(await call(gateway), 503);
  assert.equal((await fetch(`${gateway.url}/readyz`)).status, 503);
  proxy.refuses = false;
  await until(async () => {
    clock.advance(250);
    return (await call(gateway)) === 200;
  });
});

test("a gateway copies its charges, and continues to serve for seconds while PostgreSQL is unreachable", async (t) => {
  const url = new URL(await preparedDatabase(t));
  url.password = "hunter2";
  await using proxy = await startFaultProxy(Number(url.port));
  const through = new URL(url);
  through.port = String(proxy.port);
  await using gateway = await start(through.href);
  const dataDir = join(gateway.folder, "data");
  for (let n = 0; n < 10; n++) assert.equal(await call(gateway), 200);
  await assertCopied(dataDir, url.href);
  proxy.refuses = true;
  proxy.reset();
  for (let n = 0; n < 20; n++) assert.equal(await call(gateway), 200);
  assert.equal((await fetch(`${gateway.url}/readyz`)).status, 200);
  proxy.refuses = false;
  await assertCopied(dataDir, url.href);
  const [replica] = await runSql(url.href, "SELECT name, state FROM sluice.replicas");
  assert.deepEqual(replica, { name: "gateway-a", state: "live" });
  // The password is shown nowhere.
  for (const path of ["/pipelines", "/metrics"]) {
    const shown = await (await fetch(`${gateway.adminUrl}${path}`)).text();
    assert.doesNotMatch(shown, /hunter2/);
  }
  assert.doesNotMatch(gateway.lines.join("\n"), /hunter2/);
});

test("faults of the database stop the start, at store.postgres, without the password", async (t) => {
  const url = new URL(await createDatabase(t));
  url.password = "hunter2";
  const failed = async (given: string): Promise<string> => {
    const error = await start(given).then(
      () => assert.fail("the gateway started"),
      (caught: unknown) => caught,
    );
    assert.ok(error instanceof StartError);
    const [{ code, message, remedy, at } = assert.fail("there is a fault")] = error.faults;
    assert.deepEqual([at?.line, at?.col], [7, 3]);
    assert.doesNotMatch(`${message} ${remedy}`, /hunter2/);
    return code;
  };
  assert.equal(await failed(url.href), "SLUICE_STORE_OLDER");
  await upgrade(url.href, createSeal("a secret of another deployment"));
  assert.equal(await failed(url.href), "SLUICE_STORE_SECRET");
  const missing = url.href.replace(/\w+$/, "no_such_database");
  assert.equal(await failed(missing), "SLUICE_STORE_UNREACHABLE");
  assert.equal(await failed("postgres://sluice:hunter2@127.0.0.1:9/x"), "SLUICE_STORE_UNREACHABLE");
});

test("without DATABASE_URL the gateway is the embedded one", async () => {
  await using gateway = await start("");
  assert.equal(await call(gateway), 200);
  const metrics = await (await fetch(`${gateway.adminUrl}/metrics`)).text();
  assert.doesNotMatch(metrics, /sluice_(store|ship|post)_/);
});

test("a second gateway on the same folder does not start, and one on a restored folder neither", async (t) => {
  const url = await preparedDatabase(t);
  const folder = mkdtempSync(join(tmpdir(), "sluice-local-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const [dataDir, backup] = [join(folder, "data"), join(folder, "backup")];
  {
    await using first = await start(url, { DATA_DIR: dataDir });
    assert.equal(await call(first), 200);
    await assert.rejects(start(url, { DATA_DIR: dataDir }), /SLUICE_STORE_IN_USE: .* data folder/);
    cpSync(dataDir, backup, { recursive: true });
    assert.equal(await call(first), 200);
    await assertCopied(dataDir, url);
  }
  await assert.rejects(start(url, { DATA_DIR: backup }), /SLUICE_STORE_RESTORED/);
});
