/** Tests of the state machine that compares the clock of a gateway with that of the ledger, with a manual clock. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { LedgerLink } from "../../../../plugins/billing/leases/ledger-link.ts";
import { MemoryLedger } from "../../../../plugins/billing/leases/memory-ledger.ts";
import { leaseMetrics } from "../../../../plugins/billing/metering/metrics.ts";
import { LedgerReplica } from "../../../../plugins/billing/leases/replica.ts";
import { createMetrics } from "../../../../src/base/metrics.ts";
import type { Log } from "../../../../src/plugin.ts";
import { manualClock } from "../../../../src/testing/clock.ts";

test("a clock that differs by more than a second is logged once, and a single late reply is not", async () => {
  const clock = manualClock();
  let aheadMs = 0;
  const ledger = new MemoryLedger(() => clock.now() + aheadMs);
  const logged: [object, string][] = [];
  const keep = (fields: object, message: string): void => void logged.push([fields, message]);
  const log: Log = { debug: keep, info: keep, warn: keep, error: keep, child: () => log };
  const replica = new LedgerReplica("one", "settled");
  const metrics = leaseMetrics(createMetrics());
  const link = new LedgerLink({ ledger, replica, clock, log, metrics, place: "PostgreSQL" });
  await link.start();
  const feed = async (count: number): Promise<void> => {
    for (let n = 0; n < count; n++) {
      clock.advance(250);
      // The replies of the ledger in memory are handled in microtasks.
      await new Promise(setImmediate);
    }
  };
  await feed(1);
  aheadMs = 1_500;
  await feed(1);
  aheadMs = 900;
  await feed(5);
  assert.deepEqual(logged, []);
  aheadMs = 1_500;
  await feed(8);
  assert.deepEqual(logged, [
    [
      { offsetSeconds: 1.5 },
      "the clock of this host differs from that of PostgreSQL by more than a second",
    ],
  ]);
  aheadMs = 0;
  await feed(8);
  assert.deepEqual(logged.slice(1), [
    [{ offsetSeconds: 0 }, "the clock of this host agrees with that of PostgreSQL again"],
  ]);
  const closed = link.close();
  await feed(4);
  await closed;
});
