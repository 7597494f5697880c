/** Gateways that share one PostgreSQL spend one budget, and need no data folder. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { cpSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { readUsage } from "../../../../plugins/billing/metering/read-usage.ts";
import type { TestGateway } from "../../../../plugins/contracts/testing.ts";
import { storeCommand } from "../../../../src/commands/store.ts";
import { commandLine } from "../../../commands/command-line.ts";
import { sluice, sourceMain, spawnGateway } from "../../../e2e/gateway-process.ts";
import { startRpcNode } from "../../../e2e/rpc-node.ts";
import { type FaultProxy, startFaultProxy } from "../../../store/fault-proxy.ts";
import { runSql } from "../../../store/servers.ts";
import { charge, meterFixture, principalOf } from "../metering/fixture.ts";
import { until } from "../shipping/fixture.ts";
import { call, charged, metric, preparedDatabase, secret, startOn } from "./gateway-fixture.ts";

test("without PostgreSQL calls are answered with 503 and not charged, and later calls are served again", async (t) => {
  const database = await preparedDatabase(t);
  await using proxy = await startFaultProxy(Number(new URL(database).port));
  await using gateway = await startOn(throughPort(database, proxy.port));
  const answered = new Map<string, number>();
  const tryCall = async (): Promise<number> => {
    const id = `call-${answered.size}`;
    // A call whose charge may have been committed waits for PostgreSQL, so the client gives up.
    const status = await callOnce(gateway, id).catch(() => 0);
    answered.set(id, status);
    return status;
  };
  await until(async () => (await tryCall()) === 200);
  for (const fault of ["refuse", "stall"] as const) {
    if (fault === "refuse") proxy.refuses = true;
    else proxy.stalled = "both";
    proxy.reset();
    await until(async () => (await tryCall()) === 503);
    assert.equal((await fetch(`${gateway.url}/readyz`)).status, 503);
    const refused = [...answered.keys()].at(-1) ?? "";
    proxy.refuses = false;
    proxy.stalled = "none";
    proxy.reset();
    await until(async () => (await tryCall()) === 200);
    const explained = await fetch(`${gateway.adminUrl}/explain?id=${refused}`);
    assert.match(await explained.text(), /"store":"PostgreSQL/);
  }
  const rows = await runSql(database, "SELECT request_id FROM sluice.charges");
  const paid = rows.map((row) => String(row["request_id"]));
  assert.equal(new Set(paid).size, paid.length, "nothing is charged twice");
  for (const [id, status] of answered) {
    if (status !== 0) assert.equal(paid.includes(id), status === 200, `${id}: ${status}`);
  }
});

test("while PostgreSQL does not answer, calls are refused at once and nothing queues", async (t) => {
  const database = await preparedDatabase(t);
  await using proxy = await startFaultProxy(Number(new URL(database).port));
  await using gateway = await startOn(throughPort(database, proxy.port));
  assert.equal(await call(gateway.url, gateway.key), 200);
  proxy.stalled = "both";
  // They find out that PostgreSQL does not answer.
  const first = Array.from({ length: 20 }, () => call(gateway.url, gateway.key).catch(() => 0));
  await until(async () => (await fetch(`${gateway.url}/readyz`)).status === 503);
  const later = Array.from({ length: 300 }, () => call(gateway.url, gateway.key));
  assert.deepEqual(new Set(await Promise.all(later)), new Set([503]));
  assert.ok((await metric(gateway, "sluice_post_waiting_rows")) <= first.length);
  proxy.stalled = "none";
  const statuses = await Promise.all(first);
  await until(async () => (await call(gateway.url, gateway.key)) === 200);
  const answered = statuses.filter((status) => status === 200).length;
  const { charges, requests } = (await charged(database)) ?? {};
  assert.deepEqual([charges, requests], [answered + 2, answered + 2]);
});

/**
 * Calls a gateway that has just started for more than it has leased, while PostgreSQL does not answer. Returns the
 * status of the call, or 0 if it is broken off, as soon as the call waits for credit.
 */
async function callWaiting(
  gateway: TestGateway,
  proxy: FaultProxy,
  signal?: AbortSignal,
): Promise<{ readonly status: Promise<number> }> {
  assert.equal(await call(gateway.url, gateway.key), 200);
  const before = await metric(gateway, "sluice_lease_waits_total");
  proxy.stalled = "both";
  const headers = { authorization: `Bearer ${gateway.key}` };
  const status = fetch(`${gateway.url}/held`, { headers, signal: signal ?? null }).then(
    (response) => response.status,
    () => 0,
  );
  await until(async () => (await metric(gateway, "sluice_lease_waits_total")) > before);
  return { status };
}

test("a call whose client leaves while it waits for credit is not charged", async (t) => {
  const database = await preparedDatabase(t);
  await using proxy = await startFaultProxy(Number(new URL(database).port));
  await using gateway = await startOn(throughPort(database, proxy.port));
  const leaves = new AbortController();
  const { status } = await callWaiting(gateway, proxy, leaves.signal);
  leaves.abort();
  assert.equal(await status, 0);
  proxy.stalled = "none";
  proxy.reset();
  await until(async () => (await call(gateway.url, gateway.key)) === 200);
  await until(async () => (await metric(gateway, "sluice_reservations_open")) === 0);
  assert.deepEqual(await charged(database), { charges: 2, used: 14, requests: 2 });
});

test("a gateway that stops while a call waits for credit answers it with 503", async (t) => {
  const database = await preparedDatabase(t);
  await using proxy = await startFaultProxy(Number(new URL(database).port));
  await using gateway = await startOn(throughPort(database, proxy.port));
  const { status } = await callWaiting(gateway, proxy);
  await gateway.gateway.stop();
  assert.equal(await status, 503);
  assert.deepEqual(await charged(database), { charges: 1, used: 7, requests: 1 });
});

function throughPort(database: string, port: number): string {
  const through = new URL(database);
  through.port = String(port);
  return through.href;
}

async function callOnce(
  { url, key }: Pick<TestGateway, "url" | "key">,
  requestId: string,
  timeoutMs = 500,
): Promise<number> {
  const response = await fetch(`${url}/call`, {
    headers: { authorization: `Bearer ${key}`, "x-request-id": requestId },
    signal: AbortSignal.timeout(timeoutMs),
  });
  await response.text();
  return response.status;
}

test("with async durability an answer does not wait, and its charge is recorded", async (t) => {
  const database = await preparedDatabase(t);
  await using gateway = await startOn(database, { DURABILITY: "async" });
  assert.equal(await call(gateway.url, gateway.key), 200);
  await until(async () => (await charged(database))?.["charges"] === 1);
});

test("charges of a data folder count for gateways that share credit after they were copied", async (t) => {
  const database = await preparedDatabase(t);
  const { dataDir: written, open } = meterFixture(t);
  const plan = { includedMilliCu: 12, overageUsdPerCu: undefined };
  const principal = principalOf({ workspace: { purchasedTotalMilliCu: 20 }, plan });
  const meter = await open();
  for (let n = 0; n < 3; n++) await charge(meter, principal, 5);
  await meter.close();
  const env = { DATABASE_URL: database, GATEWAY_SECRET: secret };
  const { run, data: dataDir } = commandLine(t, "dev", env);
  cpSync(written, dataDir, { recursive: true });
  const expected = [...readUsage(dataDir)].map(({ id, requestId }) => ({ id, requestId }));
  const refused = async (): Promise<void> =>
    assert.rejects(startOn(database, { DATA_DIR: dataDir }), /SLUICE_STORE_NOT_MOVED: /);
  await refused();
  // The months cannot be written: nothing counts as copied without them.
  await runSql(database, "ALTER TABLE sluice.scopes ADD CONSTRAINT closed CHECK (false)");
  assert.equal((await run(await storeCommand(), "copy-charges")).code, 1);
  await refused();
  await runSql(database, "ALTER TABLE sluice.scopes DROP CONSTRAINT closed");
  // The second time, nothing is missing.
  for (const count of [3, 0]) {
    const { code, out, err } = await run(await storeCommand(), "copy-charges");
    assert.deepEqual([code, err], [0, []]);
    assert.deepEqual(out, [`copied ${count} charges of ${dataDir} to the database`]);
  }
  const rows = await runSql(database, "SELECT id, request_id FROM sluice.usage ORDER BY seq");
  assert.deepEqual(
    rows.map((row) => ({ id: row["id"], requestId: row["request_id"] })),
    expected,
  );
  const used = await runSql(
    database,
    "SELECT sum(milli_cu)::int AS milli FROM sluice.used WHERE kind = 'period'",
  );
  assert.deepEqual(used, [{ milli: 15 }]);
  // The month has ended, and stays divided as the folder has divided it.
  const [scope] = await runSql(database, "SELECT fixed FROM sluice.scopes");
  const amounts = { includedMilliCu: 12, purchasedMilliCu: 3, overageMilliCu: 0 };
  assert.deepEqual(scope?.["fixed"], [{ start: Date.UTC(2026, 0), ...amounts }]);
  await using _gateway = await startOn(database, { DATA_DIR: dataDir });
});

const shippedPipeline = join(import.meta.dirname, "../../../../pipeline.yaml");
/** No user can create it, not even root. */
const impossibleFolder = "/proc/sluice-data";

const hasBubblewrap = spawnSync("bwrap", ["--version"]).error === undefined;
const readOnly =
  "bwrap --unshare-user --uid 65534 --gid 65534 --die-with-parent --ro-bind / / --dev /dev --proc /proc".split(
    " ",
  );

test("a gateway that cannot create its data folder, and may not write anywhere, serves and charges requests", async (t) => {
  const url = await preparedDatabase(t);
  await using node = await startRpcNode();
  const env = {
    DATABASE_URL: url,
    GATEWAY_SECRET: secret,
    DATA_DIR: impossibleFolder,
    LEDGER_RPC_URL: node.url,
  };
  const run = (...args: string[]): Record<string, string> =>
    JSON.parse(sluice([...args, "--config", shippedPipeline, "--json"], env));
  const { id = "" } = run("workspaces", "create", "--name", "t", "--plan", "developer");
  const { key } = run("keys", "create", "--workspace", id);
  const wrapper = hasBubblewrap ? readOnly : [];
  const gateway = await spawnGateway(shippedPipeline, env, { wrapper, command: sourceMain });
  t.after(async () => {
    gateway.child.kill("SIGKILL");
    await gateway.exited;
  });
  assert.equal((await fetch(`${gateway.url}/readyz`)).status, 200);
  const response = await fetch(`${gateway.url}/v1/ledger/rpc`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "system_chain", params: [] }),
  });
  assert.deepEqual(await response.json(), { jsonrpc: "2.0", id: 1, result: "Test" });
  const charges = await runSql(url, "SELECT surface, method FROM sluice.usage");
  assert.deepEqual(charges, [{ surface: "ledger-rpc", method: "system_chain" }]);
});
