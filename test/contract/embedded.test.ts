/** Runs the tests of the contracts on the stores of the data folder. */
import type { TestContext } from "node:test";
import {
  openGatewayAccountStore,
  type EmbeddedAccountStore,
} from "../../plugins/billing/accounts/embedded/embedded-account-store.ts";
import { embeddedSlots } from "../../plugins/billing/accounts/embedded/embedded-slots.ts";
import { openIdempotency } from "../../plugins/billing/accounts/idempotency.ts";
import { readUsage } from "../../plugins/billing/metering/read-usage.ts";
import { openStreamStore } from "../../plugins/confidential/confidential-relay/open-store.ts";
import type { StreamStore } from "../../plugins/confidential/confidential-relay/stream-store.ts";
import { systemClock } from "../../src/clock.ts";
import { openComputePool } from "../../src/compute/pool.ts";
import { createJournalReports } from "../../plugins/billing/metering/journal-reports.ts";
import { createMetrics } from "../../src/metrics.ts";
import type { Awaitable } from "../../src/plugin.ts";
import { Buckets } from "../../plugins/edge/rate-limit/buckets.ts";
import { TokenBucket } from "../../plugins/edge/rate-limit/token-bucket.ts";
import { openClaims, type ClaimsService } from "../../src/store/claims.ts";
import { openPluginEntries, openStorageDatabase } from "../../src/store/plugin-storage.ts";
import { atOnce } from "../../plugins/contracts/at-once.ts";
import { manualClock } from "../../src/testing/clock.ts";
import { temporaryFolder } from "../store/folder.ts";
import { describeAccountStore } from "./accounts.ts";
import { describeBuckets, type OpenBuckets } from "./buckets.ts";
import { describeClaims } from "./claims.ts";
import { meterFixture } from "../plugins/billing/metering/fixture.ts";
import { describeMeter, type RecordedCharge } from "./meter.ts";
import { describeIdempotency, type IdempotencyReplica } from "./idempotency.ts";
import { describeStreamStore } from "./receipts.ts";
import { describeStorage } from "./storage.ts";
import { describeUsage } from "./usage.ts";
import { silentLog } from "../test-log.ts";

function openStore(t: TestContext, folder: string, clock = manualClock()): EmbeddedAccountStore {
  const store = openGatewayAccountStore(folder, clock);
  t.after(() => store.close());
  return store;
}

describeAccountStore("embedded", (t) => {
  const folder = temporaryFolder(t);
  const one = openStore(t, folder);
  const other = openStore(t, folder);
  const restart = (): EmbeddedAccountStore => {
    one.close();
    other.close();
    return openStore(t, folder);
  };
  return { one, other, restart };
});

describeIdempotency("embedded", (t) => {
  const folder = temporaryFolder(t);
  const clock = manualClock();
  const replica = (): IdempotencyReplica & { readonly store: EmbeddedAccountStore } => {
    const store = openStore(t, folder, clock);
    const idempotency = openIdempotency({
      slots: embeddedSlots(store, clock),
      clock,
      log: silentLog,
    });
    t.after(() => idempotency.close());
    return { idempotency, store, die: () => idempotency.close() };
  };
  const [one, other] = [replica(), replica()];
  const workspace = { name: "Acme", plan: "developer" } as const;
  const { id } = atOnce(one.store.createWorkspace(workspace, { actor: "test", at: 1 }));
  return { one, other, workspaceId: id, pass: (ms) => clock.advance(ms) };
});

describeStreamStore("embedded", async (t) => {
  const folder = temporaryFolder(t);
  const clock = manualClock();
  const open = async (): Promise<StreamStore> => {
    const store = { folder, postgres: undefined, redis: undefined, replicas: undefined };
    const opened = await openStreamStore({
      store,
      clock,
      log: silentLog,
      metrics: createMetrics(),
    });
    let closed: Awaitable<void>;
    const close = (): Awaitable<void> => (closed ??= opened.close());
    t.after(close);
    return { ...opened, close };
  };
  const one = await open();
  const restart = async (): Promise<StreamStore> => {
    await one.close();
    return open();
  };
  return { one, pass: (ms) => clock.advance(ms), restart };
});

describeClaims("embedded", (t) => {
  const folder = temporaryFolder(t);
  const clock = manualClock();
  const opened: ClaimsService[] = [];
  const openOne = (): ClaimsService => {
    const service = openClaims(folder, clock);
    opened.push(service);
    return service;
  };
  const close = (): void => {
    for (const service of opened.splice(0)) service.close();
  };
  t.after(close);
  return {
    one: openOne(),
    other: openOne(),
    now: () => clock.now(),
    pass: (ms) => clock.advance(ms),
    restart() {
      close();
      return openOne();
    },
  };
});

describeStorage("embedded", (t) => {
  const folder = temporaryFolder(t);
  const open = (): ReturnType<typeof openPluginEntries> => {
    const entries = openPluginEntries(folder);
    t.after(() => entries.close());
    return entries;
  };
  const fill = (count: number): void => {
    const db = openStorageDatabase(folder);
    db.exec(`INSERT INTO plugin_storage WITH RECURSIVE one (n) AS
      (SELECT 1 UNION ALL SELECT n + 1 FROM one WHERE n < ${count})
      SELECT 'acme', 'n' || n, x'61' FROM one`);
    db.close();
  };
  return { one: open(), other: open(), restart: open, fill };
});

describeBuckets("embedded", () => {
  const clock = manualClock();
  const now = (): number => clock.monotonic() * 1000;
  const buckets = new Buckets(10, (_, terms, at) => new TokenBucket(terms, at));
  const bucket: OpenBuckets["one"] = (caller, terms) => buckets.of(caller, terms, now());
  return { one: bucket, other: bucket, now, pass: (ms) => clock.advance(ms) };
});

describeMeter("embedded", async (t) => {
  const { dataDir, open } = meterFixture(t);
  const meter = await open();
  const charges = (): RecordedCharge[] =>
    [...readUsage(dataDir)].map((row) => ({
      requestId: row.requestId,
      surface: row.surface,
      method: row.method,
      model: row.model,
      agentName: row.agent?.name,
      splitMilliCu: [row.includedMilliCu, row.purchasedMilliCu, row.overageMilliCu],
      inputTokens: row.inputTokens,
      outcome: row.outcome,
    }));
  return { one: meter, other: meter, charges };
});

describeUsage("embedded", async (t) => {
  const { dataDir, clock, open } = meterFixture(t);
  const meter = await open();
  const pool = openComputePool({ clock: systemClock, metrics: createMetrics(), threads: 1 });
  t.after(() => pool.close());
  return { meter, usage: createJournalReports(dataDir, pool, silentLog), now: () => clock.now() };
});
