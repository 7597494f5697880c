/**
 * `npm run fuzz -- --minutes N [--seed S] [--only NAME]`: runs the fuzz targets, round after round, until the time is
 * over. The first round has the seed S, the next S + 1, and so on. Without --minutes there is one round. Exits with 1
 * if any target failed.
 */
import { parseArgs } from "node:util";
import { createRandom, FuzzFailure, type FuzzTarget } from "./target.ts";
import { targets } from "./targets.ts";

interface Tally {
  readonly target: FuzzTarget;
  rounds: number;
  inputs: number;
  ms: number;
  failure: unknown;
}

const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: "0" },
    seed: { type: "string" },
    only: { type: "string" },
  },
});
const minutes = Number(values.minutes);
const firstSeed = values.seed === undefined ? Date.now() | 0 : Number(values.seed);
const selected = targets.filter(({ name }) => values.only === undefined || name === values.only);
if (!(minutes >= 0) || !Number.isInteger(firstSeed) || selected.length === 0) {
  const names = targets.map(({ name }) => name).join(", ");
  console.error("usage: npm run fuzz -- [--minutes N] [--seed INTEGER] [--only NAME]");
  console.error(`targets: ${names}`);
  process.exit(2);
}

console.log(`seed ${firstSeed}, ${selected.length} targets, ${minutes} minutes`);
const end = performance.now() + minutes * 60_000;
const tallies = selected.map<Tally>((target) => ({
  target,
  rounds: 0,
  inputs: 0,
  ms: 0,
  failure: undefined,
}));
let seed = firstSeed;
do {
  for (const tally of tallies) {
    if (tally.failure === undefined) await round(tally, seed);
  }
  seed = (seed + 1) | 0;
} while (performance.now() < end && tallies.some(({ failure }) => failure === undefined));

console.log("\n| target | rounds | inputs | seconds | result |\n| --- | --- | --- | --- | --- |");
for (const { target, rounds, inputs, ms, failure } of tallies) {
  const result = failure === undefined ? "passed" : "FAILED";
  console.log(`| ${target.name} | ${rounds} | ${inputs} | ${(ms / 1000).toFixed(1)} | ${result} |`);
}
// Servers of a target that failed may still be open.
process.exit(tallies.some(({ failure }) => failure !== undefined) ? 1 : 0);

async function round(tally: Tally, roundSeed: number): Promise<void> {
  const random = createRandom(tally.target.name, roundSeed);
  const begun = performance.now();
  try {
    await tally.target.run(random);
  } catch (error) {
    tally.failure = error;
    const isFound = error instanceof FuzzFailure;
    console.error(isFound ? error.message : `${tally.target.name}, seed ${roundSeed}`);
    console.error(isFound ? error.cause : error);
  }
  tally.rounds++;
  tally.inputs += random.inputs;
  tally.ms += performance.now() - begun;
}
