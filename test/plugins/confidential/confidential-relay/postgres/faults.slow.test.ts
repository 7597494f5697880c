/** The store of the encrypted stream while PostgreSQL is away. */
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { openStreamStore } from "../../../../../plugins/confidential/confidential-relay/open-store.ts";
import type { StreamStore } from "../../../../../plugins/confidential/confidential-relay/stream-store.ts";
import { createMetrics } from "../../../../../src/base/metrics.ts";
import { postgresSql } from "../../../../../src/store/sql/postgres-sql.ts";
import { manualClock } from "../../../../../src/testing/clock.ts";
import { receiptOf } from "../../../../contract/receipts.ts";
import { startFaultProxy, type FaultProxy } from "../../../../store/fault-proxy.ts";
import { accountsDatabase } from "../../../billing/accounts/postgres/database.ts";
import { keptLog } from "../../../../test-log.ts";

const attempt = {
  keyId: "key_1",
  hello: { idempotencyKey: "once", network: "alpha", model: "M", maxOutputTokens: 9 },
  requestBytes: 288,
};

interface Setup {
  readonly proxy: FaultProxy;
  readonly store: StreamStore;
  readonly lines: readonly string[];
}

async function setUp(t: TestContext): Promise<Setup> {
  const database = await accountsDatabase(t);
  const proxy = await startFaultProxy(Number(new URL(database.url).port));
  t.after(() => proxy[Symbol.asyncDispose]());
  const { log, lines } = keptLog();
  const pool = database.open({ port: proxy.port, statementMs: 1_000 });
  const store = openStreamStore({
    store: { sql: (lane) => postgresSql(pool, lane) },
    clock: manualClock(),
    log,
    metrics: createMetrics(),
  });
  t.after(() => store.close());
  return { proxy, store, lines };
}

test("while PostgreSQL is away, receipts are not kept, reads and ids fail, and afterwards all work", async (t) => {
  const { proxy, store, lines } = await setUp(t);
  const { receipts, sessionIds } = store;
  const unreachable = { code: "SLUICE_STORE_UNREACHABLE" };
  proxy.refuses = true;
  proxy.reset();
  assert.equal(await receipts.keep(receiptOf(1)), false);
  await assert.rejects(async () => receipts.find("A", 1), unreachable);
  await assert.rejects(async () => sessionIds.claim("A"), unreachable);
  assert.deepEqual(lines, ["error cannot store receipts"]);
  proxy.refuses = false;
  assert.equal(await receipts.keep(receiptOf(1)), true);
  assert.equal(await sessionIds.claim("A"), true);
});

test("credit that cannot be stored is valid on its own gateway, and counts once", async (t) => {
  const { proxy, store } = await setUp(t);
  const { retryCredits } = store;
  await retryCredits.add(attempt, 5);
  proxy.refuses = true;
  proxy.reset();
  await retryCredits.add(attempt, 20);
  assert.equal(await retryCredits.take(attempt, 8), 8, "from memory");
  proxy.refuses = false;
  assert.equal(await retryCredits.take(attempt, 30), 17);
  assert.equal(await retryCredits.take(attempt, 30), 0);
});

test("credit whose use is not confirmed is not given, and not given again", async (t) => {
  const { proxy, store } = await setUp(t);
  const { retryCredits } = store;
  await retryCredits.add(attempt, 5);
  proxy.dropAfter = "UPDATE sluice.lost_answers";
  proxy.repliesToDrop = 1;
  assert.equal(await retryCredits.take(attempt, 5), 0);
  assert.equal(proxy.dropped, 1);
  assert.equal(await retryCredits.take(attempt, 5), 0);
});
