/**
 * `npm run model -- [--steps N] [--seed S]`: runs random histories of the lease protocol until N steps have passed
 * (default: a million), half of them without failures. Exits with 1 if an invariant is broken, or if a mutant is not
 * detected.
 */
import assert from "node:assert/strict";
import { parseArgs } from "node:util";
import * as fc from "fast-check";
import { histories, knownHistories, runHistory, runKnownHistory } from "./histories.ts";
import { mutants } from "./mutants.ts";

const { values } = parseArgs({
  options: { steps: { type: "string", default: "1000000" }, seed: { type: "string" } },
});
const maxSteps = Number(values.steps);
const firstSeed = values.seed === undefined ? Date.now() | 0 : Number(values.seed);
if (!(maxSteps > 0) || !Number.isInteger(firstSeed)) {
  console.error("usage: npm run model -- [--steps N] [--seed INTEGER]");
  process.exit(2);
}

const begun = performance.now();
const counters: Record<string, number> = {};
let steps = 0;
for (let seed = firstSeed; steps < maxSteps; seed++) {
  for (const kind of ["failing", "ordinary"] as const) {
    const replicas = 2 + (Math.abs(seed) % 3);
    const run = fc.property(histories(kind, 400), (history) => {
      const world = runHistory(history, { replicas });
      steps += history.length;
      for (const [what, times] of Object.entries(world.counters))
        counters[what] = (counters[what] ?? 0) + times;
    });
    const result = fc.check(run, { numRuns: 50, seed, interruptAfterTimeLimit: 600_000 });
    if (!result.failed) continue;
    console.error(`seed ${seed}, ${kind}, ${replicas} replicas`);
    console.error(fc.defaultReportMessage(result));
    process.exit(1);
  }
}
const seconds = ((performance.now() - begun) / 1000).toFixed(0);
console.log(`seed ${firstSeed}: ${steps} steps in ${seconds} s`, counters);

for (const [name, parts] of Object.entries(mutants)) {
  const known = knownHistories[name];
  if (known !== undefined) {
    const isFound = fails(() => runKnownHistory(known, parts));
    console.log(`mutant "${name}": ${isFound ? "found in a certain history" : "NOT FOUND"}`);
    if (!isFound) process.exitCode = 1;
    continue;
  }
  const run = fc.property(histories("failing", 400), (history) => {
    runHistory(history, { replicas: 3, parts });
  });
  const { failed, numRuns } = fc.check(run, {
    numRuns: 2_000,
    seed: firstSeed,
    endOnFailure: true,
  });
  console.log(`mutant "${name}": ${failed ? `found in history ${numRuns}` : "NOT FOUND"}`);
  if (!failed) process.exitCode = 1;
}

function fails(run: () => void): boolean {
  try {
    run();
    return false;
  } catch (error) {
    if (error instanceof assert.AssertionError) return true;
    throw error;
  }
}
