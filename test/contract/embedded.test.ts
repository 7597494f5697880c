/** Runs the tests of the contracts on the stores of the data folder. */
import type { AccountStore } from "../../plugins/billing/accounts/account-store.ts";
import { LeasedSlots } from "../../plugins/billing/accounts/idempotency.ts";
import { openStreamStore } from "../../plugins/confidential/confidential-relay/open-store.ts";
import type { StreamStore } from "../../plugins/confidential/confidential-relay/stream-store.ts";
import { systemClock } from "../../src/base/clock.ts";
import type { Clock } from "../../src/plugin.ts";
import { createMetrics } from "../../src/base/metrics.ts";
import { Buckets } from "../../plugins/edge/rate-limit/buckets.ts";
import { TokenBucket } from "../../plugins/edge/rate-limit/token-bucket.ts";
import { openClaims, type ClaimsService } from "../../src/store/claims.ts";
import type { PluginEntries } from "../../src/store/plugin-entries.ts";
import { createPluginEntries } from "../../src/store/plugin-storage.ts";
import { manualClock } from "../../src/testing/clock.ts";
import { temporaryFolder } from "../store/folder.ts";
import { openFolderSql, withFolderSql, type TestSql } from "../store/open-sql.ts";
import { describeAccountStore } from "./accounts.ts";
import { describeBuckets, type OpenBuckets } from "./buckets.ts";
import { describeClaims } from "./claims.ts";
import { openFolderAccounts } from "../plugins/billing/accounts/open-accounts.ts";
import { meterFixture } from "../plugins/billing/metering/fixture.ts";
import { describeMeter, type RecordedCharge } from "./meter.ts";
import { describeIdempotency, type IdempotencyReplica } from "./idempotency.ts";
import { describeStreamStore } from "./receipts.ts";
import { describeSql } from "./sql.ts";
import { describeStorage } from "./storage.ts";
import { describeUsage } from "./usage.ts";
import { silentLog } from "../test-log.ts";
import { createSession } from "../../src/store/session.ts";

/** A replica renews the leases of its slots this often (plugins/billing/accounts/idempotency.ts). */
const renewMs = 20_000;

describeAccountStore("embedded", async (t) => {
  const folder = temporaryFolder(t);
  const one = await openFolderAccounts(t, folder);
  const other = await openFolderAccounts(t, folder);
  const restart = async (): Promise<AccountStore> => {
    await Promise.all([one.sql.close(), other.sql.close()]);
    return (await openFolderAccounts(t, folder)).store;
  };
  return { one: one.store, other: other.store, restart };
});

describeIdempotency("embedded", async (t) => {
  const folder = temporaryFolder(t);
  const clock = manualClock();
  let storeTime = clock.now();
  const ofStore: Clock = { ...systemClock, now: () => storeTime };
  const replica = async (): Promise<IdempotencyReplica & { readonly sql: TestSql }> => {
    const { store, slots, sql } = await openFolderAccounts(t, folder, ofStore);
    const idempotency = new LeasedSlots({ slots, clock, log: silentLog });
    t.after(() => idempotency.close());
    return { idempotency, store, sql, die: () => idempotency.close() };
  };
  const [one, other] = [await replica(), await replica()];
  const workspace = { name: "Acme", plan: "developer" } as const;
  const { id } = await one.store.createWorkspace(workspace, { actor: "test", at: 1 });
  const pass = async (ms: number): Promise<void> => {
    storeTime += ms;
    // As in real time, leases are renewed before a sweep can delete their slots.
    const untilRenewed = Math.min(ms, renewMs);
    for (const step of [untilRenewed, ms - untilRenewed]) {
      clock.advance(step);
      await Promise.all([one.sql.idle(), other.sql.idle()]);
    }
  };
  return { one, other, workspaceId: id, pass };
});

describeStreamStore("embedded", async (t) => {
  const folder = temporaryFolder(t);
  const clock = manualClock();
  const open = async (): Promise<{ readonly store: StreamStore; readonly sql: TestSql }> => {
    const sql = await openFolderSql(t, folder, clock);
    const store = { sql: () => sql };
    const opened = openStreamStore({ store, clock, log: silentLog, metrics: createMetrics() });
    t.after(() => opened.close());
    return { store: opened, sql };
  };
  const { store: one, sql } = await open();
  const { store: other, sql: otherSql } = await open();
  const restart = async (): Promise<StreamStore> => {
    await Promise.all([one.close(), other.close()]);
    await Promise.all([sql.close(), otherSql.close()]);
    return (await open()).store;
  };
  const pass = async (ms: number): Promise<void> => {
    clock.advance(ms);
    await Promise.all([sql.idle(), otherSql.idle()]);
  };
  return { one, other, pass, restart };
});

describeSql("embedded", async (t) => {
  const folder = temporaryFolder(t);
  const clock = manualClock();
  const open = (): Promise<TestSql> => openFolderSql(t, folder, clock);
  return { one: await open(), other: await open(), now: () => clock.now() };
});

describeClaims("embedded", async (t) => {
  const folder = temporaryFolder(t);
  const clock = manualClock();
  const opened: { readonly claims: ClaimsService; readonly sql: TestSql }[] = [];
  const openOne = async (): Promise<ClaimsService> => {
    const sql = await openFolderSql(t, folder, clock);
    const claims = await openClaims(sql, createSession(sql.query, clock), clock, silentLog);
    opened.push({ claims, sql });
    return claims;
  };
  const close = async (): Promise<void> => {
    for (const { claims, sql } of opened.splice(0)) {
      claims.close();
      await sql.close();
    }
  };
  t.after(close);
  return {
    one: await openOne(),
    other: await openOne(),
    now: () => clock.now(),
    async pass(ms) {
      clock.advance(ms);
      for (const { sql } of opened) await sql.idle();
    },
    async restart() {
      await close();
      return openOne();
    },
  };
});

describeStorage("embedded", async (t) => {
  const folder = temporaryFolder(t);
  const open = async (): Promise<PluginEntries> =>
    createPluginEntries(await openFolderSql(t, folder));
  const fill = (count: number): Promise<void> =>
    withFolderSql(folder, async (sql) => {
      const rows = `WITH RECURSIVE one (n) AS
        (SELECT 1 UNION ALL SELECT n + 1 FROM one WHERE n < ${count})
        SELECT 'acme', 'n' || n, x'61' FROM one`;
      await sql.query(`INSERT INTO sluice.plugin_storage ${rows}`);
    });
  return { one: await open(), other: await open(), restart: open, fill };
});

describeBuckets("embedded", () => {
  const clock = manualClock();
  const now = (): number => clock.monotonic() * 1000;
  const buckets = new Buckets(10, (_, terms, at) => new TokenBucket(terms, at));
  const bucket: OpenBuckets["one"] = (caller, terms) => buckets.of(caller, terms, now());
  return { one: bucket, other: bucket, now, pass: (ms) => clock.advance(ms) };
});

describeMeter("embedded", async (t) => {
  const { rows, open } = meterFixture(t);
  const meter = await open();
  const charges = (): RecordedCharge[] =>
    rows().map((row) => ({
      requestId: row.requestId,
      surface: row.surface,
      method: row.method,
      model: row.model,
      agentName: row.agent?.name,
      costMilliCu: row.includedMilliCu + row.purchasedMilliCu + row.overageMilliCu,
      inputTokens: row.inputTokens,
      outcome: row.outcome,
    }));
  return { one: meter, other: meter, charges };
});

describeUsage("embedded", async (t) => {
  const { clock, open } = meterFixture(t);
  const meter = await open();
  return { meter, usage: meter.usage, now: () => clock.now() };
});
