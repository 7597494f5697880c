import assert from "node:assert/strict";
import { test } from "node:test";
import { faultSets, planFaults } from "./schedule.ts";

test("a seed decides the faults", () => {
  assert.deepEqual(planFaults(7, 600_000, 3), planFaults(7, 600_000, 3));
  assert.notDeepEqual(planFaults(7, 600_000, 3), planFaults(8, 600_000, 3));
});

test("two minutes of any seed have every fault, two to five seconds apart", () => {
  for (let seed = 1; seed <= 20; seed++) {
    const planned = planFaults(seed, 120_000, 3);
    const kinds = new Set(planned.map(({ fault }) => fault.kind));
    assert.deepEqual([...kinds].sort(), Object.keys(faultSets.all).sort());
    for (const [n, { atMs }] of planned.entries()) {
      const gap = atMs - (planned[n - 1]?.atMs ?? 0);
      assert.ok(gap >= 2_000 && gap < 5_000, `${gap} ms`);
    }
  }
});
