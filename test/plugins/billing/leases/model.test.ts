/** The lease protocol in random histories: replicas, one ledger and a bad network. `npm run model` runs more of them. */
import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { histories, runHistory } from "./histories.ts";
import { mutants } from "./mutants.ts";
import { World } from "./world.ts";

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
    runHistory(steps, { replicas: 3, isReliable: true });
  });
  fc.assert(run, { numRuns, seed: 2, interruptAfterTimeLimit: 60_000 });
});

test("the same holds if two of three replicas have a journal", () => {
  const failing = fc.property(histories("failing", 400), (steps) => {
    runHistory(steps, { replicas: 3, locals: 2 });
  });
  fc.assert(failing, { numRuns, seed: 3, interruptAfterTimeLimit: 60_000 });
  const ordinary = fc.property(histories("ordinary", 250), (steps) => {
    runHistory(steps, { replicas: 3, locals: 2, isReliable: true });
  });
  fc.assert(ordinary, { numRuns: numRuns / 2, seed: 4, interruptAfterTimeLimit: 60_000 });
});

/** Histories that random steps hardly ever contain, by the mistake that they show. */
const knownHistories: Readonly<Record<string, (world: World) => void>> = {
  "a late registration frees credit": (world) => {
    world.send(0);
    world.deliver(0, true);
    const [registration] = world.network.splice(0, 1);
    assert.ok(registration?.message?.kind === "register");
    world.exchange(0);
    world.reserve(0, 0, 300);
    world.flow(300);
    world.network.unshift(registration);
    world.deliver(0);
    world.reserve(1, 0, 300);
    world.flow(300);
  },
  "the journal is not awaited": (world) => {
    world.flow(100);
    world.reserve(0, 0, 300);
    world.flow(300);
    world.settle(0, 0, [100]);
    world.sync(0);
    world.crash(0);
    world.exchange(0);
    world.reserve(1, 0, 300);
    world.exchange(1);
    world.settle(1, 0, [100]);
    world.flow(1_000);
  },
};
const twoReplicas = { replicas: 2, locals: 1 };

for (const [name, parts] of Object.entries(mutants)) {
  const history = knownHistories[name];
  if (history !== undefined) {
    test(`a certain history finds this mistake, and nothing is wrong without it: ${name}`, () => {
      const correct = new World(twoReplicas);
      history(correct);
      correct.finish();
      assert.throws(() => {
        const wrong = new World({ ...twoReplicas, parts });
        history(wrong);
        wrong.finish();
      }, assert.AssertionError);
    });
    continue;
  }
  test(`the model finds this mistake: ${name}`, () => {
    const run = fc.property(histories("failing", 400), (steps) => {
      runHistory(steps, { replicas: 3, locals: 2, parts });
    });
    assert.ok(fc.check(run, { numRuns: 200, seed: 7, endOnFailure: true }).failed);
  });
}
