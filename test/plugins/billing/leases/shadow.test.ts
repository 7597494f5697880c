/** A meter in shadow mode on a gateway that shares credit with another one, which does not answer. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { LeasedMeter } from "../../../../plugins/billing/leases/leased-meter.ts";
import { LedgerLink } from "../../../../plugins/billing/leases/ledger-link.ts";
import { MemoryLedger } from "../../../../plugins/billing/leases/memory-ledger.ts";
import { leaseMetrics } from "../../../../plugins/billing/metering/metrics.ts";
import { LedgerReplica } from "../../../../plugins/billing/leases/replica.ts";
import meterStep from "../../../../plugins/billing/meter/index.ts";
import { createMetrics } from "../../../../src/base/metrics.ts";
import { manualClock } from "../../../../src/testing/clock.ts";
import { fakeExchange, fakeHost, fakeMetering, keyPrincipal } from "../../fakes.ts";

const limits = {
  kind: "workspace",
  includedMilliCu: 1_000,
  purchasedMilliCu: 0,
  overageMilliCu: 0,
} as const;

test("in shadow mode a request does not wait for the credit of a gateway that does not answer", async () => {
  const clock = manualClock();
  const ledger = new MemoryLedger(() => clock.now());
  const { replica: silent } = ledger.register("silent");
  const want = { scope: "ws_1", limits, isNew: true, epoch: 0 } as const;
  const needs = { needsMilliCu: [800], extraMilliCu: 0, hasNewNeeds: true } as const;
  const nothing = { grantedMilliCu: 0, slackMilliCu: 0 } as const;
  ledger.lease({ replica: silent, leaseNo: 1, wants: [{ ...want, ...needs, ...nothing }] });

  const metrics = createMetrics();
  const replica = new LedgerReplica("one", "settled");
  const shared = { replica, clock, metrics: leaseMetrics(metrics) };
  const link = new LedgerLink({ ...shared, ledger, log: fakeHost().log, place: "PostgreSQL" });
  await link.start();
  const unavailableNow = { kind: "unavailable" } as const;
  const deps = { ...shared, link, isAsync: false, unavailable: unavailableNow } as const;
  const meter = new LeasedMeter(deps);
  const pass = async (ms: number): Promise<void> => {
    for (let passed = 0; passed < ms; passed += 50) {
      clock.advance(50);
      // The replies of the ledger in memory are handled in microtasks.
      await new Promise(setImmediate);
    }
  };

  const metering = fakeMetering({
    reserve: (...args) => meter.reserve(...args),
    reserveWithoutLimit: (...args) => meter.reserveWithoutLimit(...args),
  });
  const step = await meterStep.start(
    {},
    fakeHost({ clock, metrics, mode: "shadow" }, { metering }),
  );
  const key = keyPrincipal();
  const principal = { ...key, plan: { ...key.plan, includedMilliCu: limits.includedMilliCu } };
  const x = fakeExchange({ slots: { principal, requestId: "req-1" } });
  const state = step.createState?.(x);
  assert.ok(state !== undefined);
  await step.requestHeaders?.(x, state);
  const charge = x.get("charge");
  // Only 200 are left beside what the other gateway holds.
  assert.equal(charge.reserve(300), undefined, "it does not wait");
  charge.settle([{ method: "m", costMilliCu: 300 }]);
  const ended = step.responseEnd?.(x, { reply: undefined } as never, state);
  await pass(100);
  assert.equal(await ended, undefined);
  assert.deepEqual(
    ledger.charges.map(({ costMilliCu }) => costMilliCu),
    [300],
  );
  const text = async (): Promise<string> => metrics.render();
  const unavailable = /sluice_meter_shadow_refusals_total\{scope="unavailable"\} 1/;
  assert.doesNotMatch(await text(), unavailable);
  await pass(3_000);
  assert.match(await text(), unavailable);
  const closed = meter.close();
  await pass(500);
  await closed;
});
