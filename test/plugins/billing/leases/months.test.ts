/** The division of a month by included, purchased and overage. */
import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import {
  unlimitedMilliCu,
  type LeaseReply,
  type WorkspaceLimits,
} from "../../../../plugins/billing/leases/ledger.ts";
import { MemoryLedger } from "../../../../plugins/billing/leases/memory-ledger.ts";
import {
  currentMonth,
  drawn,
  monthLimit,
  totalOf,
  type Drawn,
} from "../../../../plugins/billing/leases/months.ts";

const september = Date.UTC(2026, 8, 1);
const october = Date.UTC(2026, 9, 1);
const november = Date.UTC(2026, 10, 1);
const limits = {
  kind: "workspace",
  includedMilliCu: 100,
  purchasedMilliCu: 50,
  overageMilliCu: 30,
} as const;

function amountsOf(month: Drawn): readonly number[] {
  return [month.includedMilliCu, month.purchasedMilliCu, month.overageMilliCu];
}

test("the amounts add up to the sum, and a month may spend exactly its limit", () => {
  const amount = fc.nat({ max: 1_000 });
  const every = fc.record({
    includedMilliCu: amount,
    purchasedMilliCu: amount,
    overageMilliCu: fc.oneof(amount, fc.constant(unlimitedMilliCu)),
  });
  fc.assert(
    fc.property(amount, every, amount, (sum, given, before) => {
      const month = drawn(sum, given, before);
      assert.equal(totalOf(month), sum);
      const { includedMilliCu, purchasedMilliCu, overageMilliCu } = given;
      const covered = sum <= monthLimit({ kind: "workspace", ...given }, before);
      assert.ok(month.purchasedMilliCu <= Math.max(0, purchasedMilliCu - before));
      const isWithin =
        month.includedMilliCu <= includedMilliCu && month.overageMilliCu <= overageMilliCu;
      assert.equal(isWithin, covered);
    }),
  );
});

test("months that have ended are fixed by the given limits, and change no more", () => {
  const sums = new Map([
    [september, 110],
    [october, 130],
    [november, 7],
  ]);
  const first = currentMonth(november + 5, sums, [], limits);
  assert.deepEqual(
    first.fixed.map((month) => [month.start, ...amountsOf(month)]),
    [
      [september, 100, 10, 0],
      [october, 100, 30, 0],
    ],
  );
  assert.deepEqual([first.sumMilliCu, first.purchasedBeforeMilliCu], [7, 40]);
  const later = currentMonth(november + 6, sums, first.fixed, { ...limits, includedMilliCu: 9 });
  assert.deepEqual(later.fixed, first.fixed);
});

test("a charge that is posted late counts in one month", () => {
  const sums = new Map([[september, 300]]);
  const { fixed } = currentMonth(october, sums, [], limits);
  sums.set(september, 330).set(october, 50).set(november, 7);
  const first = currentMonth(november, sums, fixed, limits);
  assert.deepEqual([first.fixed.map(totalOf), first.sumMilliCu], [[300, 80], 7]);
  const second = currentMonth(november, sums, first.fixed, limits);
  assert.deepEqual([second.fixed, second.sumMilliCu], [first.fixed, 7]);
});

test("a month is fixed with the limits that were stored when it ended, not with those of the next request", () => {
  let now = october;
  const ledger = new MemoryLedger(() => now);
  const { replica } = ledger.register("a");
  const lease = (leaseNo: number, wanted: WorkspaceLimits, needMilliCu: number): LeaseReply =>
    ledger.lease({
      replica,
      leaseNo,
      wants: [
        {
          scope: "ws_1",
          limits: wanted,
          isNew: leaseNo === 1,
          grantedMilliCu: leaseNo === 1 ? 0 : 300,
          slackMilliCu: 0,
          needsMilliCu: [needMilliCu],
          extraMilliCu: 0,
          epoch: 0,
          hasNewNeeds: true,
        },
      ],
    });
  const before = { ...limits, purchasedMilliCu: 0, overageMilliCu: 200 };
  lease(1, before, 300);
  const details = {
    about: { requestId: "1", surface: "chat" },
    line: { surface: "chat", method: "m", costMilliCu: 300 },
  };
  const payer = { workspaceId: "ws_1", keyId: "key_1", keyTakenMilliCu: 0 };
  const charge = { ...payer, time: october, costMilliCu: 300, takenMilliCu: 300, details };
  ledger.post({ replica, first: 1, last: 1, charges: [charge] });
  now = november;
  const limit = 100 + 1_000 + 200;
  const reply = lease(2, { ...before, purchasedMilliCu: 1_000 }, limit + 1);
  assert.equal(reply.granted?.[0]?.reached?.limitMilliCu, limit);
  assert.deepEqual(ledger.scope("ws_1").fixed.map(amountsOf), [[100, 0, 200]]);
});
