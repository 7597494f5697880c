import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { drawn } from "../../../../plugins/billing/leases/months.ts";
import { MonthDraws } from "../../../../plugins/billing/metering/month-draws.ts";

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
