import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import {
  dayWindow,
  monthWindow,
  RollingWindow,
} from "../../../../plugins/billing/metering/windows.ts";

const minute = 60_000;
const hour = 3_600_000;
const day = 24 * hour;
const noon = Date.UTC(2026, 0, 15, 12);

test("a charge counts for 24 hours from the end of its minute", () => {
  const window = new RollingWindow(dayWindow);
  window.add(noon + 59_999, 7);
  assert.equal(window.sum(noon + day), 7);
  assert.equal(window.sum(noon + day + minute - 1), 7);
  assert.equal(window.sum(noon + day + minute), 0);
});

test("a charge at the first instant of a minute counts equally long", () => {
  const window = new RollingWindow(dayWindow);
  window.add(noon, 7);
  assert.equal(window.sum(noon + day + minute - 1), 7);
  assert.equal(window.sum(noon + day + minute), 0);
});

test("the window of 30 days has steps of an hour", () => {
  const window = new RollingWindow(monthWindow);
  window.add(noon + 1, 7);
  assert.equal(window.sum(noon + 30 * day + hour - 1), 7);
  assert.equal(window.sum(noon + 30 * day + hour), 0);
});

test("steps leave the window one by one", () => {
  const window = new RollingWindow(dayWindow);
  for (let i = 0; i < 1441; i++) window.add(noon + i * minute, 1);
  assert.equal(window.sum(noon + 1440 * minute), 1441);
  assert.equal(window.sum(noon + 1441 * minute), 1440);
  assert.equal(window.sum(noon + 2000 * minute), 881);
  assert.equal(window.sum(noon + 10 * day), 0);
});

test("a clock that jumps back revives no step and loses no amount", () => {
  const window = new RollingWindow(dayWindow);
  window.add(noon, 1);
  window.add(noon + 2 * hour, 10);
  // An amount that is charged an hour before the newest step counts with that step.
  window.add(noon + hour, 100);
  assert.equal(window.sum(noon - 5 * day), 111);
  assert.equal(window.sum(noon + day + minute), 110);
  assert.equal(window.sum(noon + day + 2 * hour), 110);
  assert.equal(window.sum(noon + day + 2 * hour + minute), 0);
  // All steps have left the window. An older charge is still added no earlier than the newest step seen.
  window.add(noon, 1_000);
  assert.equal(window.sum(noon + day + 2 * hour), 1_000);
});

test("an empty window holds no memory", () => {
  const window = new RollingWindow(dayWindow);
  assert.equal(window.isEmpty(noon), true);
  window.add(noon, 0);
  assert.equal(window.isEmpty(noon), false);
  assert.equal(window.isEmpty(noon + 2 * day), true);
});

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

test("clearsAt returns the time at which the sum falls to an amount", () => {
  const window = new RollingWindow(dayWindow);
  assert.equal(window.clearsAt(noon, 0), undefined);
  window.add(noon, 5);
  window.add(noon + hour, 3);
  const now = noon + 2 * hour;
  assert.equal(window.clearsAt(now, 8), undefined);
  assert.equal(window.clearsAt(now, 7), noon + day + minute);
  assert.equal(window.clearsAt(now, 3), noon + day + minute);
  assert.equal(window.clearsAt(now, 2), noon + hour + day + minute);
  assert.equal(window.clearsAt(now, 0), noon + hour + day + minute);
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
