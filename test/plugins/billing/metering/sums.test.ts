/** Tests of the sums of charges over time, against a list of all charges. */
import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import {
  dayWindow,
  monthWindow,
  RollingWindow,
} from "../../../../plugins/billing/metering/windows.ts";
import { drawn } from "../../../../plugins/billing/leases/months.ts";
import { MonthDraws } from "../../../../plugins/billing/metering/month-draws.ts";

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
const limits = fc.record({
  kind: fc.constant("workspace" as const),
  includedMilliCu: amount,
  purchasedMilliCu: amount,
  overageMilliCu: fc.constantFrom(0, 40),
});

test("the divisions of charges add up to that of the month's sum, whatever limits change, and can be reversed", () => {
  const charges = fc.array(fc.tuple(amount, limits, fc.boolean()), { maxLength: 30 });
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
