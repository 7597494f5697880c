import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { drawn, periodOf } from "../../../../plugins/billing/leases/months.ts";
import { MonthDraws } from "../../../../plugins/billing/metering/month-draws.ts";

test("a period is the calendar month in UTC, including leap years and year ends", () => {
  const cases = [
    ["2026-01-15T12:00:00Z", "2026-01-01", "2026-02-01"],
    ["2026-01-31T23:59:59.999Z", "2026-01-01", "2026-02-01"],
    ["2026-02-01T00:00:00Z", "2026-02-01", "2026-03-01"],
    ["2028-02-29T23:59:59.999Z", "2028-02-01", "2028-03-01"],
    ["2100-02-28T23:59:59.999Z", "2100-02-01", "2100-03-01"],
    ["2026-12-31T23:59:59.999Z", "2026-12-01", "2027-01-01"],
  ] as const;
  for (const [time, start, end] of cases) {
    const period = periodOf(Date.parse(time));
    assert.deepEqual(period, { start: Date.parse(start), end: Date.parse(end) }, time);
  }
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
