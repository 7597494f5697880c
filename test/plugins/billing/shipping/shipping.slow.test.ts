/** Copies charges of a real meter to a real PostgreSQL. */
import assert from "node:assert/strict";
import { cpSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { startFaultProxy, type FaultProxy } from "../../../store/fault-proxy.ts";
import { createDatabase, runSql, startPgBouncer } from "../../../store/servers.ts";
import {
  agentOf,
  charge,
  day,
  meterFixture,
  principalOf,
  take,
  type MeterFixture,
} from "../metering/fixture.ts";
import type { MeterService } from "../../../../plugins/billing/metering/meter.ts";
import { assertCopied, ship, until, upgrade } from "./fixture.ts";

interface Setup extends MeterFixture {
  readonly meter: MeterService;
  readonly url: string;
}

async function setUp(t: TestContext): Promise<Setup> {
  const fixture = meterFixture(t);
  const meter = await fixture.open();
  const url = await createDatabase(t);
  await upgrade(url);
  return { ...fixture, meter, url };
}

async function proxyTo(t: TestContext, url: string): Promise<{ proxy: FaultProxy; url: string }> {
  const proxy = await startFaultProxy(Number(new URL(url).port));
  t.after(() => proxy[Symbol.asyncDispose]());
  const through = new URL(url);
  through.port = String(proxy.port);
  proxy.dropAfter = "sluice.post";
  return { proxy, url: through.href };
}

test("charges settled before and after the start are in the database, with all fields", async (t) => {
  const { meter, clock, dataDir, url } = await setUp(t);
  await charge(meter, principalOf(), 5);
  const { metrics } = await ship(t, dataDir, url);
  const agent = agentOf("Planner", { sessionId: "s-1", capabilities: ["tools"] });
  const paid = principalOf({ plan: { includedMilliCu: 30, overageUsdPerCu: "0.001" } });
  await take(meter, paid, 70, { requestId: "r'\"\\", agent }).settle([
    {
      surface: "chat",
      method: "completions",
      model: "A/b-1",
      costMilliCu: 70,
      inputTokens: 5,
      outputTokens: 6,
      estimated: true,
      outcome: "clientLeft",
      pricing: {
        network: "n",
        coefficient: 1.5,
        pricePerTokenNano: "12",
        tokenUsdRate: undefined,
        asOf: "2026-01-15T11:00:00.000Z",
      },
    },
  ]);
  // A charge of another month gets another partition.
  clock.advance(20 * day);
  await charge(meter, principalOf(), 7);
  await assertCopied(dataDir, url);
  assert.match(await metrics.render(), /sluice_ship_lag_seconds 0\n/);
});

test("texts that PostgreSQL cannot store are copied with replacement characters", async (t) => {
  const { meter, dataDir, url } = await setUp(t);
  await ship(t, dataDir, url);
  const agent = agentOf("nul \0 and half \ud800 pair");
  await take(meter, principalOf(), 5, { requestId: "a\0b", agent }).settle([
    { surface: "s", method: "m", costMilliCu: 5 },
  ]);
  const rows = (): Promise<Record<string, unknown>[]> =>
    runSql(url, "SELECT request_id, agent->>'name' AS name FROM sluice.charges");
  await until(async () => (await rows()).length > 0);
  assert.deepEqual(await rows(), [
    { request_id: "a\ufffdb", name: "nul \ufffd and half \ufffd pair" },
  ]);
});

test("replies that are lost after the commit neither lose nor double a charge", async (t) => {
  const { meter, dataDir, url } = await setUp(t);
  const { proxy, url: through } = await proxyTo(t, url);
  await ship(t, dataDir, through);
  for (let n = 1; n <= 5; n++) {
    proxy.repliesToDrop = 1;
    await charge(meter, principalOf(), n);
    await until(() => Promise.resolve(proxy.dropped === n));
  }
  await assertCopied(dataDir, url);
});

test("the copy survives a network that stalls, resets and refuses, and logs it once", async (t) => {
  const { meter, dataDir, url } = await setUp(t);
  const { proxy, url: through } = await proxyTo(t, url);
  const { logged, metrics } = await ship(t, dataDir, through);
  for (const stalled of ["up", "down", "both"] as const) {
    proxy.stalled = stalled;
    await charge(meter, principalOf(), 1);
    await until(async () => /sluice_store_postgres_up 0\n/.test(await metrics.render()));
    proxy.stalled = "none";
    proxy.reset();
    await assertCopied(dataDir, url);
  }
  proxy.refuses = true;
  proxy.reset();
  await charge(meter, principalOf(), 1);
  await until(() => Promise.resolve(logged.some((line) => line.startsWith("warn"))));
  proxy.refuses = false;
  await assertCopied(dataDir, url);
  await until(() =>
    Promise.resolve(logged.at(-1) === "info charges are copied to PostgreSQL again"),
  );
});

test("the copy works through PgBouncer in transaction mode", async (t) => {
  const { meter, dataDir, url } = await setUp(t);
  const bounced = await startPgBouncer(t, url);
  if (bounced === undefined) return;
  await ship(t, dataDir, bounced);
  for (let n = 1; n <= 20; n++) await charge(meter, principalOf(), n);
  await assertCopied(dataDir, url);
});

test("a second start on the same folder continues; the first one stops for good", async (t) => {
  const { meter, dataDir, url } = await setUp(t);
  const first = await ship(t, dataDir, url);
  await charge(meter, principalOf(), 1);
  await assertCopied(dataDir, url);
  await ship(t, dataDir, url);
  await charge(meter, principalOf(), 2);
  await assertCopied(dataDir, url);
  await until(() => Promise.resolve(first.logged.length > 0));
  assert.match(first.logged[0] ?? "", /^error another gateway has started on a copy/);
  assert.match(await first.metrics.render(), /sluice_ship_stopped 1\n/);
});

test("another live gateway on the same database is a fault; one that left is not", async (t) => {
  const { dataDir, url } = await setUp(t);
  const other = meterFixture(t);
  await other.open();
  const running = await ship(t, dataDir, url, { replica: "gateway-a" });
  await assert.rejects(ship(t, other.dataDir, url), {
    code: "SLUICE_STORE_IN_USE",
    message: 'another gateway, "gateway-a", uses the PostgreSQL database',
  });
  await running.close();
  await ship(t, other.dataDir, url);
});

test("charges of shared credit, which the journal does not count, are logged at the start", async (t) => {
  const { dataDir, url } = await setUp(t);
  const before = await ship(t, dataDir, url);
  assert.deepEqual(before.logged, []);
  await before.close();
  await runSql(
    url,
    `INSERT INTO sluice.replicas (name, version, mode, state, posted, registered_at, heard_at)
     VALUES ('idle', '1', 'settled', 'gone', 0, 0, sluice.now_ms()),
       ('two', '1', 'settled', 'gone', 3, 0, sluice.now_ms()),
       ('old', '1', 'settled', 'gone', 3, 0, sluice.now_ms() - ${31 * 86_400_000})`,
  );
  const { logged } = await ship(t, dataDir, url);
  assert.deepEqual(logged, [
    "warn the journal does not count what other gateways have charged within 30 days: limits can be exceeded",
  ]);
});

test("a gateway that was silent while another one took over the database reports that and waits", async (t) => {
  const { meter, dataDir, url } = await setUp(t);
  const other = meterFixture(t);
  await other.open();
  const { logged } = await ship(t, dataDir, url);
  // 10 seconds without a sign of life.
  await runSql(url, "UPDATE sluice.replicas SET heard_at = heard_at - 60000");
  await ship(t, other.dataDir, url, { replica: "gateway-b" });
  await charge(meter, principalOf(), 1);
  await until(() => Promise.resolve(logged.length > 0));
  assert.deepEqual(logged, [
    "error another gateway uses the PostgreSQL database: charges are not copied to it",
  ]);
});

test("charges that the database has lost are sent again", async (t) => {
  const { meter, dataDir, url } = await setUp(t);
  const { metrics } = await ship(t, dataDir, url);
  for (let n = 1; n <= 4; n++) await charge(meter, principalOf(), n);
  await assertCopied(dataDir, url);
  // Simulates a failover to a standby that had not received the latest commits.
  await runSql(
    url,
    "BEGIN; UPDATE sluice.replicas SET posted = 1; DELETE FROM sluice.charges WHERE seq >= 2000000; COMMIT",
  );
  await charge(meter, principalOf(), 5);
  await assertCopied(dataDir, url);
  assert.match(await metrics.render(), /sluice_store_went_back_total 1\n/);
  // Simulates a database that was restored from a backup before the gateway registered.
  await runSql(url, "BEGIN; DELETE FROM sluice.replicas; DELETE FROM sluice.charges; COMMIT");
  await charge(meter, principalOf(), 6);
  await assertCopied(dataDir, url);
  assert.match(await metrics.render(), /sluice_store_went_back_total 2\n/);
});

test("a data folder that was restored from a backup is a fault", async (t) => {
  const { meter, dataDir, url, crashed } = await setUp(t);
  await charge(meter, principalOf(), 1);
  const backup = crashed();
  await charge(meter, principalOf(), 2);
  const running = await ship(t, dataDir, url);
  await assertCopied(dataDir, url);
  await running.close();
  await assert.rejects(ship(t, backup.dataDir, url), {
    code: "SLUICE_STORE_RESTORED",
    message: `the journal in ${backup.dataDir} ends at commit 1, but the PostgreSQL database has its charges up to commit 2`,
  });
  // The backup was used without the database for a while, so it has other charges with the same numbers.
  const restored = await backup.open();
  await charge(restored, principalOf(), 3);
  await charge(restored, principalOf(), 4);
  await assert.rejects(ship(t, backup.dataDir, url), {
    code: "SLUICE_STORE_RESTORED",
    message: `commit 2 of the journal in ${backup.dataDir} is not the one whose charges the PostgreSQL database has`,
  });
});

test("a new journal in the same database starts from its beginning", async (t) => {
  const { meter, dataDir, url } = await setUp(t);
  const running = await ship(t, dataDir, url);
  await charge(meter, principalOf(), 1);
  await assertCopied(dataDir, url);
  await running.close();
  const other = meterFixture(t);
  await charge(await other.open(), principalOf(), 2);
  await ship(t, other.dataDir, url);
  const sum = (): Promise<Record<string, unknown>[]> =>
    runSql(url, "SELECT sum(used_cu_milli)::int AS sum FROM sluice.usage");
  await until(async () => (await sum())[0]?.["sum"] === 3);
});

test("a gateway needs only the permission to read and to call the functions", async (t) => {
  const { meter, dataDir, url } = await setUp(t);
  const role = `writer_${new URL(url).pathname.slice(1, 20)}`;
  await runSql(
    url,
    `CREATE ROLE ${role} LOGIN`,
    `GRANT USAGE ON SCHEMA sluice TO ${role}`,
    `GRANT SELECT ON ALL TABLES IN SCHEMA sluice TO ${role}`,
  );
  const limited = new URL(url);
  limited.username = role;
  const running = await ship(t, dataDir, limited.href);
  await charge(meter, principalOf(), 1);
  await assertCopied(dataDir, url);
  await assert.rejects(runSql(limited.href, "DELETE FROM sluice.charges"), { code: "42501" });
  await running.close();
  await runSql(url, `DROP OWNED BY ${role}`, `DROP ROLE ${role}`);
});

test("a journal that is larger than one batch is copied completely", async (t) => {
  const { meter, dataDir, url } = await setUp(t);
  const principal = principalOf({ plan: { overageUsdPerCu: "0.001" } });
  for (let round = 0; round < 30; round++) {
    await Promise.all(Array.from({ length: 100 }, () => charge(meter, principal, 1)));
  }
  await ship(t, dataDir, url);
  await assertCopied(dataDir, url);
});

test("the copy ends its last batch when the gateway stops", async (t) => {
  const { meter, dataDir, url } = await setUp(t);
  const running = await ship(t, dataDir, url);
  const copy = join(dataDir, "..", "copy");
  await charge(meter, principalOf(), 1);
  await running.close();
  cpSync(dataDir, copy, { recursive: true });
  await assertCopied(copy, url);
  const [replica] = await runSql(url, "SELECT state FROM sluice.replicas");
  assert.deepEqual(replica, { state: "gone" });
});
