/** The lease protocol in random histories: replicas, one ledger and a bad network. `npm run model` runs more of them. */
import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { histories, knownHistories, runHistory, runKnownHistory } from "./histories.ts";
import { mutants } from "./mutants.ts";

/** 50 histories of up to 400 steps are about 14,000 steps. */
const numRuns = 50;

test("no failure of the network or of a replica exceeds a limit, or loses or doubles a charge", () => {
  const run = fc.property(histories("failing", 400), (steps) => {
    runHistory(steps, { replicas: 3 });
  });
  fc.assert(run, { numRuns, seed: 1, interruptAfterTimeLimit: 60_000 });
});

test("while nothing fails, a reservation is refused only if its credit was in use", () => {
  const run = fc.property(histories("ordinary", 250), (steps) => {
    const { counters } = runHistory(steps, { replicas: 3 });
    assert.equal(counters.unavailable, 0);
  });
  fc.assert(run, { numRuns, seed: 2, interruptAfterTimeLimit: 60_000 });
});

for (const [name, parts] of Object.entries(mutants)) {
  const history = knownHistories[name];
  if (history !== undefined) {
    test(`a certain history finds this mistake, and nothing is wrong without it: ${name}`, () => {
      runKnownHistory(history);
      assert.throws(() => runKnownHistory(history, parts), assert.AssertionError);
    });
    continue;
  }
  test(`the model finds this mistake: ${name}`, () => {
    const run = fc.property(histories("failing", 400), (steps) => {
      runHistory(steps, { replicas: 3, parts });
    });
    const { errorInstance } = fc.check(run, { numRuns: 200, seed: 7, endOnFailure: true });
    assert.ok(errorInstance instanceof assert.AssertionError, String(errorInstance));
  });
}
