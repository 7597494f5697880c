import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { Draws, periodOf, type Split } from "../../../../plugins/billing/metering/periods.ts";
import { planOf, workspaceOf } from "./fixture.ts";

const emptySplit = (): Split => ({ includedMilliCu: 0, purchasedMilliCu: 0, overageMilliCu: 0 });

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

test("the included amount is drawn first, then the purchased balance, then overage", () => {
  const draws = new Draws();
  const plan = planOf({ includedMilliCu: 100, overageUsdPerCu: "0.001" });
  const workspace = workspaceOf({ purchasedTotalMilliCu: 50 });
  const split = emptySplit();
  draws.draw(90, plan, workspace, split);
  assert.deepEqual(split, { includedMilliCu: 90, purchasedMilliCu: 0, overageMilliCu: 0 });
  draws.draw(80, plan, workspace, split);
  assert.deepEqual(split, { includedMilliCu: 10, purchasedMilliCu: 50, overageMilliCu: 20 });
  draws.draw(5, plan, workspace, split);
  assert.deepEqual(split, { includedMilliCu: 0, purchasedMilliCu: 0, overageMilliCu: 5 });
  assert.equal(draws.purchasedLeft(workspace), 0);
});

test("a new period renews the included amount but not the purchased one", () => {
  const draws = new Draws();
  const plan = planOf({ includedMilliCu: 100, overageUsdPerCu: undefined });
  const workspace = workspaceOf({ purchasedTotalMilliCu: 50 });
  const split = emptySplit();
  draws.roll(1);
  draws.draw(130, plan, workspace, split);
  assert.equal(draws.limit(plan, workspace), 150);
  draws.roll(2);
  assert.equal(draws.purchasedLeft(workspace), 20);
  assert.equal(draws.limit(plan, workspace), 120);
  assert.equal(draws.fits(120, plan, workspace), true);
  assert.equal(draws.fits(121, plan, workspace), false);
  // A clock that jumps back into the previous month does not open it again.
  draws.roll(1);
  assert.equal(draws.period, 2);
  assert.equal(draws.limit(plan, workspace), 120);
});

test("a plan without overage refuses more than included and purchased credit, whatever the overage limit is", () => {
  const plan = planOf({ includedMilliCu: 10, overageUsdPerCu: undefined });
  const workspace = workspaceOf({ purchasedTotalMilliCu: 5, overageLimitCuMilli: 1_000 });
  const draws = new Draws();
  assert.equal(draws.limit(plan, workspace), 15);
  assert.equal(draws.fits(15, plan, workspace), true);
  assert.equal(draws.fits(16, plan, workspace), false);
});

test("overage is limited by the limit of the workspace, and unlimited without one", () => {
  const plan = planOf({ includedMilliCu: 10, overageUsdPerCu: "0.001" });
  const draws = new Draws();
  assert.equal(draws.fits(31, plan, workspaceOf({ overageLimitCuMilli: 20 })), false);
  assert.equal(draws.fits(30, plan, workspaceOf({ overageLimitCuMilli: 20 })), true);
  assert.equal(draws.fits(10, plan, workspaceOf({ overageLimitCuMilli: 0 })), true);
  assert.equal(draws.fits(11, plan, workspaceOf({ overageLimitCuMilli: 0 })), false);
  assert.equal(draws.fits(10 ** 15, plan, workspaceOf({})), true);
  assert.equal(draws.limit(plan, workspaceOf({})), Infinity);
});

test("amounts above 2^53 do not fit, because they could not be counted exactly", () => {
  const plan = planOf({ includedMilliCu: 10, overageUsdPerCu: "0.001" });
  const draws = new Draws();
  draws.openMilliCu = 1;
  assert.equal(draws.fits(Number.MAX_SAFE_INTEGER - 1, plan, workspaceOf({})), true);
  assert.equal(draws.fits(Number.MAX_SAFE_INTEGER, plan, workspaceOf({})), false);
});

test("a smaller plan that is set within the month does not use up purchased credit", () => {
  const draws = new Draws();
  const split = emptySplit();
  const workspace = workspaceOf({ purchasedTotalMilliCu: 50 });
  draws.draw(90, planOf({ includedMilliCu: 100, overageUsdPerCu: undefined }), workspace, split);
  const smaller = planOf({ includedMilliCu: 10, overageUsdPerCu: undefined });
  assert.equal(draws.fits(50, smaller, workspace), true);
  assert.equal(draws.fits(51, smaller, workspace), false);
  draws.draw(50, smaller, workspace, split);
  assert.deepEqual(split, { includedMilliCu: 0, purchasedMilliCu: 50, overageMilliCu: 0 });
});

test("a charge above every source is overage if the plan has it, else it overdraws the included amount", () => {
  const split = emptySplit();
  const workspace = workspaceOf({ purchasedTotalMilliCu: 5, overageLimitCuMilli: 7 });
  new Draws().draw(40, planOf({ includedMilliCu: 10, overageUsdPerCu: "1" }), workspace, split);
  assert.deepEqual(split, { includedMilliCu: 10, purchasedMilliCu: 5, overageMilliCu: 25 });
  const draws = new Draws();
  draws.draw(40, planOf({ includedMilliCu: 10, overageUsdPerCu: undefined }), workspace, split);
  assert.deepEqual(split, { includedMilliCu: 35, purchasedMilliCu: 5, overageMilliCu: 0 });
  assert.equal(
    draws.fits(1, planOf({ includedMilliCu: 10, overageUsdPerCu: undefined }), workspace),
    false,
  );
});

const amount = fc.integer({ min: 0, max: 60 });

test("splits match a model that draws unit by unit, and takeBack reverses them", () => {
  const charges = fc.array(fc.tuple(amount, fc.boolean()), { maxLength: 30 });
  fc.assert(
    fc.property(amount, amount, fc.boolean(), charges, (includedMilliCu, bought, pays, list) => {
      const plan = planOf({ includedMilliCu, overageUsdPerCu: pays ? "0.001" : undefined });
      const workspace = workspaceOf({ purchasedTotalMilliCu: bought });
      const draws = new Draws();
      const model = {
        includedMilliCu: 0,
        purchasedMilliCu: 0,
        overageMilliCu: 0,
        purchasedEver: 0,
      };
      let period = 1;
      draws.roll(period);
      const undo: [number, Split][] = [];
      for (const [cost, newPeriod] of list) {
        if (newPeriod) {
          draws.roll(++period);
          Object.assign(model, { includedMilliCu: 0, purchasedMilliCu: 0, overageMilliCu: 0 });
        }
        const expected = emptySplit();
        for (let unit = 0; unit < cost; unit++) {
          const source =
            model.includedMilliCu < includedMilliCu
              ? "includedMilliCu"
              : model.purchasedEver < bought
                ? "purchasedMilliCu"
                : pays
                  ? "overageMilliCu"
                  : "includedMilliCu";
          model[source]++;
          expected[source]++;
          if (source === "purchasedMilliCu") model.purchasedEver++;
        }
        const split = emptySplit();
        draws.draw(cost, plan, workspace, split);
        assert.deepEqual(split, expected);
        assert.equal(
          draws.usedMilliCu,
          model.includedMilliCu + model.purchasedMilliCu + model.overageMilliCu,
        );
        assert.equal(draws.purchasedLeft(workspace), bought - model.purchasedEver);
        undo.push([period, split]);
      }
      for (const [inPeriod, split] of undo) draws.takeBack(inPeriod, split);
      assert.equal(draws.usedMilliCu, 0);
      assert.equal(draws.purchasedLeft(workspace), bought);
    }),
    { numRuns: 300 },
  );
});
