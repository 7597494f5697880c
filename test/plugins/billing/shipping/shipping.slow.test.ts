/** Meters with a journal (`local`) on a real PostgreSQL: every charge of the journal is in the database exactly once. */
import assert from "node:assert/strict";
import { placesPerCommit } from "../../../../plugins/billing/metering/charge-number.ts";
import { cpSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { startFaultProxy, type FaultProxy } from "../../../store/fault-proxy.ts";
import { createDatabase, runSql, startPgBouncer } from "../../../store/servers.ts";
import {
  about,
  agentOf,
  charge,
  line,
  meterFixture,
  principalOf,
  type MeterFixture,
} from "../metering/fixture.ts";
import { assertCopied, openLocal, until, upgrade, type LocalMeter } from "./fixture.ts";
import type { ChargeLine, KeyPrincipal } from "sluice-gateway/services";

interface Setup extends MeterFixture {
  readonly url: string;
}

async function setUp(t: TestContext): Promise<Setup> {
  const url = await createDatabase(t);
  await upgrade(url);
  return { ...meterFixture(t), url };
}

async function proxyTo(t: TestContext, url: string): Promise<{ proxy: FaultProxy; url: string }> {
  const proxy = await startFaultProxy(Number(new URL(url).port));
  t.after(() => proxy[Symbol.asyncDispose]());
  const through = new URL(url);
  through.port = String(proxy.port);
  proxy.dropAfter = "sluice.credit_post";
  return { proxy, url: through.href };
}

async function pay(
  meter: LocalMeter,
  principal: KeyPrincipal,
  lines: ChargeLine,
  more: { requestId?: string; route?: string; agent?: ReturnType<typeof agentOf> } = {},
): Promise<void> {
  const reserved = await meter.reserve(principal, lines.costMilliCu, { ...about, ...more });
  if (reserved.kind !== "reserved") throw new Error(`${reserved.kind} instead of reserved`);
  await reserved.settle([lines]);
}

async function held(url: string): Promise<number> {
  const [row] = await runSql(
    url,
    "SELECT coalesce(sum(sluice.held(granted, spent)), 0)::int AS held FROM sluice.leases",
  );
  return Number(row?.["held"]);
}

async function state(url: string): Promise<unknown> {
  const [row] = await runSql(url, "SELECT state FROM sluice.replicas ORDER BY heard_at DESC");
  return row?.["state"];
}

test("charges made before and after the gateway shared credit are in the database, with all fields", async (t) => {
  const { open, dataDir, url } = await setUp(t);
  const alone = await open();
  await charge(alone, principalOf(), 5);
  await alone.close();
  const meter = await openLocal(t, dataDir, url);
  const agent = agentOf("Planner", { sessionId: "s-1", capabilities: ["tools"] });
  const paid = principalOf({
    key: { cuLimit24hMilli: 1_000 },
    plan: { includedMilliCu: 30, overageUsdPerCu: "0.001" },
  });
  const chat = {
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
  } as const;
  await pay(meter, paid, chat, { requestId: "r'\"\\", route: "/v1/chat", agent });
  await assertCopied(dataDir, url);
  // The earlier charge counts at its own time, so it has left the window.
  const [row] = await runSql(url, "SELECT day FROM sluice.windows('key_1', sluice.now_ms())");
  assert.equal(Number(row?.["day"]), 70);
  await until(async () => /sluice_ship_lag_seconds 0\n/.test(await meter.metrics.render()));
});

test("texts that PostgreSQL cannot store are copied with replacement characters", async (t) => {
  const { dataDir, url } = await setUp(t);
  const meter = await openLocal(t, dataDir, url);
  const agent = agentOf("nul \0 and half \ud800 pair");
  await pay(meter, principalOf(), line(5), { requestId: "a\0b", agent });
  const rows = (): Promise<Record<string, unknown>[]> =>
    runSql(url, "SELECT request_id, agent->>'name' AS name FROM sluice.charges");
  await until(async () => (await rows()).length > 0);
  assert.deepEqual(await rows(), [
    { request_id: "a\ufffdb", name: "nul \ufffd and half \ufffd pair" },
  ]);
});

test("replies that are lost after the commit neither lose nor double a charge", async (t) => {
  const { dataDir, url } = await setUp(t);
  const { proxy, url: through } = await proxyTo(t, url);
  const meter = await openLocal(t, dataDir, through);
  for (let n = 1; n <= 5; n++) {
    proxy.repliesToDrop = 1;
    await pay(meter, principalOf(), line(n));
    await until(() => Promise.resolve(proxy.dropped === n));
  }
  await assertCopied(dataDir, url);
});

test("charges are made while the network stalls, resets and refuses, and are copied afterwards", async (t) => {
  const { dataDir, url } = await setUp(t);
  const { proxy, url: through } = await proxyTo(t, url);
  const meter = await openLocal(t, dataDir, through);
  await pay(meter, principalOf(), line(100));
  for (const stalled of ["up", "down", "both"] as const) {
    proxy.stalled = stalled;
    await pay(meter, principalOf(), line(1));
    await until(async () => /sluice_store_postgres_up 0\n/.test(await meter.metrics.render()));
    proxy.stalled = "none";
    proxy.reset();
    await assertCopied(dataDir, url);
  }
  proxy.refuses = true;
  proxy.reset();
  await pay(meter, principalOf(), line(1));
  await until(() => Promise.resolve(meter.logged.some((text) => text.startsWith("warn"))));
  assert.ok(meter.isWritable());
  proxy.refuses = false;
  await assertCopied(dataDir, url);
});

test("the copy works through PgBouncer in transaction mode", async (t) => {
  const { dataDir, url } = await setUp(t);
  const bounced = await startPgBouncer(t, url);
  if (bounced === undefined) return;
  const meter = await openLocal(t, dataDir, bounced);
  for (let n = 1; n <= 20; n++) await pay(meter, principalOf(), line(n));
  await assertCopied(dataDir, url);
});

test("after a crash, the credit stays reserved until the next start has copied the journal", async (t) => {
  const { dataDir, url, crashed } = await setUp(t);
  const { proxy, url: through } = await proxyTo(t, url);
  const first = await openLocal(t, dataDir, through);
  await pay(first, principalOf(), line(100));
  await assertCopied(dataDir, url);
  proxy.refuses = true;
  proxy.reset();
  await pay(first, principalOf(), line(30));
  const before = await held(url);
  assert.ok(before >= 30);
  // The folder as a crash at this moment leaves it.
  const after = crashed();
  assert.equal(await held(url), before);
  const second = await openLocal(t, after.dataDir, url);
  await assertCopied(after.dataDir, url);
  assert.equal(await held(url), 0);
  assert.equal(await state(url), "live");
  // To the first one, the second one looks like a gateway on a copy of its folder.
  proxy.refuses = false;
  await until(() => Promise.resolve(!first.isWritable()));
  await until(() =>
    Promise.resolve(first.logged.some((text) => text.startsWith("error another gateway"))),
  );
  assert.match(await first.metrics.render(), /sluice_ship_stopped 1\n/);
  await pay(second, principalOf(), line(7));
  await assertCopied(after.dataDir, url);
});

test("a gateway that an operator has forgotten registers again, and its journal is copied", async (t) => {
  const { dataDir, url } = await setUp(t);
  const meter = await openLocal(t, dataDir, url);
  await pay(meter, principalOf(), line(10));
  await runSql(url, "SELECT * FROM sluice.credit_end('one')");
  await pay(meter, principalOf(), line(1));
  await until(async () => (await state(url)) === "live");
  await until(() => Promise.resolve(meter.isWritable()));
  await pay(meter, principalOf(), line(2));
  await assertCopied(dataDir, url);
});

test("charges that the database has lost are sent again", async (t) => {
  const { dataDir, url } = await setUp(t);
  const meter = await openLocal(t, dataDir, url);
  for (let n = 1; n <= 4; n++) await pay(meter, principalOf(), line(n));
  await assertCopied(dataDir, url);
  // Simulates a failover to a standby that had not received the latest commits.
  await runSql(
    url,
    `BEGIN; UPDATE sluice.replicas SET posted = 1;
      DELETE FROM sluice.charges WHERE seq >= ${2 * placesPerCommit}; COMMIT`,
  );
  await pay(meter, principalOf(), line(5));
  await assertCopied(dataDir, url);
  assert.match(await meter.metrics.render(), /sluice_store_went_back_total [1-9]/);
  // Simulates a database that was restored from a backup before the gateway registered.
  await runSql(url, "BEGIN; DELETE FROM sluice.replicas; DELETE FROM sluice.charges; COMMIT");
  await assertCopied(dataDir, url);
  await until(() => Promise.resolve(meter.isWritable()));
  await pay(meter, principalOf(), line(6));
  await assertCopied(dataDir, url);
});

test("a data folder that was restored from a backup is a fault", async (t) => {
  const { dataDir, url, crashed } = await setUp(t);
  const running = await openLocal(t, dataDir, url);
  await pay(running, principalOf(), line(1));
  const backup = crashed();
  await pay(running, principalOf(), line(2));
  await assertCopied(dataDir, url);
  await running.close();
  await assert.rejects(openLocal(t, backup.dataDir, url), {
    code: "SLUICE_STORE_RESTORED",
    message: `the journal in ${backup.dataDir} ends at commit 1, but the PostgreSQL database has its charges up to commit 2`,
  });
  // The backup was used without the database for a while, so it has other charges with the same numbers.
  const other = backup.crashed();
  const restored = await other.open();
  await charge(restored, principalOf(), 3);
  await charge(restored, principalOf(), 4);
  await restored.close();
  await assert.rejects(openLocal(t, other.dataDir, url), {
    code: "SLUICE_STORE_RESTORED",
    message: `commit 2 of the journal in ${other.dataDir} is not the one whose charges the PostgreSQL database has`,
  });
});

test("a gateway needs only the permission to read and to call the functions", async (t) => {
  const { dataDir, url } = await setUp(t);
  const role = `writer_${new URL(url).pathname.slice(1, 20)}`;
  await runSql(
    url,
    `CREATE ROLE ${role} LOGIN`,
    `GRANT USAGE ON SCHEMA sluice TO ${role}`,
    `GRANT SELECT ON ALL TABLES IN SCHEMA sluice TO ${role}`,
    `GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA sluice TO ${role}`,
  );
  const limited = new URL(url);
  limited.username = role;
  const running = await openLocal(t, dataDir, limited.href);
  await pay(running, principalOf(), line(1));
  await assertCopied(dataDir, url);
  await assert.rejects(runSql(limited.href, "DELETE FROM sluice.charges"), { code: "42501" });
  await running.close();
  await runSql(url, `DROP OWNED BY ${role}`, `DROP ROLE ${role}`);
});

test("a journal that is larger than one batch is copied completely", async (t) => {
  const { open, dataDir, url } = await setUp(t);
  const alone = await open();
  const principal = principalOf({ plan: { overageUsdPerCu: "0.001" } });
  for (let round = 0; round < 30; round++) {
    await Promise.all(Array.from({ length: 100 }, () => charge(alone, principal, 1)));
  }
  await alone.close();
  const meter = await openLocal(t, dataDir, url);
  await until(() => Promise.resolve(meter.isWritable()));
  await assertCopied(dataDir, url);
});

test("a gateway that stops copies its last charges and gives back its credit", async (t) => {
  const { dataDir, url } = await setUp(t);
  const running = await openLocal(t, dataDir, url);
  const copy = join(dataDir, "..", "copy");
  await pay(running, principalOf(), line(1));
  await running.close();
  cpSync(dataDir, copy, { recursive: true });
  await assertCopied(copy, url);
  assert.deepEqual([await state(url), await held(url)], ["gone", 0]);
});
