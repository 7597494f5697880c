/** Tests of the sums of charges over time, and of the division of a month by included, purchased and overage. */
import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import {
  type LeaseReply,
  type WorkspaceLimits,
  unlimitedMilliCu,
} from "../../../../plugins/billing/leases/ledger.ts";
import { MemoryLedger } from "../../../../plugins/billing/leases/memory-ledger.ts";
import {
  type Drawn,
  currentMonth,
  drawn,
  monthLimit,
  totalOf,
} from "../../../../plugins/billing/leases/months.ts";
import { MonthDraws } from "../../../../plugins/billing/metering/month-draws.ts";
import {
  RollingWindow,
  dayWindow,
  monthWindow,
} from "../../../../plugins/billing/metering/windows.ts";

const minute = 60_000;
const hour = 3_600_000;
const noon = Date.UTC(2026, 0, 15, 12);

test("sums match a list of all charges, whatever the clock does", () => {
  const move = fc.oneof(
    fc.integer({ min: 0, max: 5 * minute }),
    fc.integer({ min: 0, max: 30 * hour }),
    fc.integer({ min: -3 * hour, max: 0 }),
  );
  const run = fc.array(fc.tuple(move, fc.integer({ min: 0, max: 1000 })), { maxLength: 120 });
  fc.assert(
    fc.property(run, fc.constantFrom(dayWindow, monthWindow), (moves, shape) => {
      const window = new RollingWindow(shape);
      const charges: { step: number; amount: number }[] = [];
      let now = noon;
      let newest = 0;
      for (const [ms, amount] of moves) {
        now += ms;
        const step = Math.max(newest, Math.floor(now / shape.stepMs));
        newest = step;
        charges.push({ step, amount });
        window.add(now, amount);
        // A step counts while its end is after the start of the window.
        const start = Math.max(now, newest * shape.stepMs) - shape.steps * shape.stepMs;
        const expected = charges
          .filter((charge) => (charge.step + 1) * shape.stepMs > start)
          .reduce((sum, charge) => sum + charge.amount, 0);
        assert.equal(window.sum(now), expected);
      }
    }),
    { numRuns: 300 },
  );
});

test("the sum falls to the amount exactly at the time that clearsAt returns", () => {
  const charge = fc.record({ at: fc.nat(30 * 60), amount: fc.integer({ min: 1, max: 1_000 }) });
  fc.assert(
    fc.property(
      fc.array(charge, { minLength: 1, maxLength: 60 }),
      fc.nat(20_000),
      (charges, most) => {
        const window = new RollingWindow(dayWindow);
        const sorted = charges.toSorted((a, b) => a.at - b.at);
        for (const { at, amount } of sorted) window.add(noon + at * minute, amount);
        const now = noon + (sorted.at(-1)?.at ?? 0) * minute;
        const clears = window.clearsAt(now, most);
        if (clears === undefined) return window.sum(now) <= most;
        return window.sum(clears - 1) > most && window.sum(clears) <= most;
      },
    ),
  );
});

const amount = fc.integer({ min: 0, max: 60 });
const anyLimits = fc.record({
  kind: fc.constant("workspace" as const),
  includedMilliCu: amount,
  purchasedMilliCu: amount,
  overageMilliCu: fc.constantFrom(0, 40),
});

test("the divisions of charges add up to that of the month's sum, whatever limits change, and can be reversed", () => {
  const charges = fc.array(fc.tuple(amount, anyLimits, fc.boolean()), { maxLength: 30 });
  fc.assert(
    fc.property(charges, (list) => {
      const draws = new MonthDraws();
      let month = 1;
      let purchasedBefore = 0;
      let sum = { includedMilliCu: 0, purchasedMilliCu: 0, overageMilliCu: 0 };
      let total = 0;
      draws.moveTo(month);
      for (const [cost, now, isNewMonth] of list) {
        if (isNewMonth) {
          draws.moveTo(++month);
          purchasedBefore += sum.purchasedMilliCu;
          sum = { includedMilliCu: 0, purchasedMilliCu: 0, overageMilliCu: 0 };
          total = 0;
        }
        draws.add(7, now);
        draws.takeBack();
        draws.moveTo(month);
        const split = draws.add(cost, now);
        draws.save();
        total += cost;
        for (const part of ["includedMilliCu", "purchasedMilliCu", "overageMilliCu"] as const) {
          sum[part] += split[part];
        }
        assert.deepEqual(sum, drawn(total, now, purchasedBefore));
      }
    }),
  );
});

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
  const upTo = fc.nat({ max: 1_000 });
  const every = fc.record({
    includedMilliCu: upTo,
    purchasedMilliCu: upTo,
    overageMilliCu: fc.oneof(upTo, fc.constant(unlimitedMilliCu)),
  });
  fc.assert(
    fc.property(upTo, every, upTo, (sum, given, before) => {
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
