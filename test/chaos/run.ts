/**
 * `npm run chaos -- --minutes M [--seed S] [--replicas N] [--readers N] [--faults all|posts]`: injects faults into several
 * gateways that share credit, and into their servers, under load. `npm run chaos -- --mutant all [--minutes M] [--seed S]`:
 * shows that the campaign finds mistakes in the database (mutants.ts). Prints the figures, and exits with 1 if a promise is
 * broken.
 */
import { parseArgs } from "node:util";
import { runCampaign, type CampaignResult } from "./replicas/campaign.ts";
import { mutantNames, type MutantName } from "./replicas/mutants.ts";
import { findPrograms } from "./replicas/programs.ts";
import { faultSets, type FaultSet } from "./replicas/schedule.ts";

const { values } = parseArgs({
  options: {
    minutes: { type: "string" },
    faults: { type: "string" },
    mutant: { type: "string" },
    readers: { type: "string", default: "6" },
    replicas: { type: "string", default: "3" },
    seed: { type: "string" },
  },
});
const minutes = Number(values.minutes ?? (values.mutant === undefined ? 3 : 1));
const faults = values.faults ?? (values.mutant === undefined ? "all" : "posts");
const mutants = mutantNames.filter((name) => values.mutant === "all" || values.mutant === name);
const replicas = Number(values.replicas);
const readers = Number(values.readers);
const seed = values.seed === undefined ? Date.now() | 0 : Number(values.seed);
const isUsage =
  minutes > 0 &&
  Object.hasOwn(faultSets, faults) &&
  (values.mutant === undefined || mutants.length > 0) &&
  Number.isInteger(readers) &&
  Number.isInteger(replicas) &&
  replicas > 0 &&
  Number.isInteger(seed);
if (!isUsage) {
  console.error(
    "usage: npm run chaos -- [--minutes M] [--replicas N] [--readers N] [--seed INTEGER] [--faults all|posts]\n" +
      `       npm run chaos -- --mutant all|${mutantNames.map((name) => `"${name}"`).join("|")}\n` +
      "                       [--minutes M] [--seed INTEGER]",
  );
  process.exit(2);
}
const started = performance.now();
const seconds = (): number => Math.round((performance.now() - started) / 1000);
process.exit((await run()) ? 0 : 1);

async function run(): Promise<boolean> {
  if (mutants.length === 0) return isWithoutViolations(await campaign());
  let found = 0;
  for (const mutant of mutants) {
    const isFound = !isWithoutViolations(await campaign(mutant));
    if (isFound) found++;
    console.log(`mutant "${mutant}": ${isFound ? "found" : "NOT FOUND"}`);
  }
  return found === mutants.length;
}

async function campaign(mutant?: MutantName): Promise<CampaignResult> {
  const programs = await findPrograms();
  if ("missing" in programs) {
    console.error(`install these packages first: ${programs.missing.join(", ")}`);
    process.exit(1);
  }
  const result = await runCampaign({
    minutes,
    seed,
    replicas,
    readers,
    programs,
    // It was checked above.
    faults: faults as FaultSet,
    ...(mutant !== undefined && { mutant }),
    onFault: (fault) => console.log(`${seconds()} s: ${JSON.stringify(fault)}`),
  });
  const { figures, violations, ...rest } = result;
  for (const [rule, all] of Object.entries(violations)) {
    for (const each of all.slice(0, 10)) console.log(`${rule}: ${each}`);
  }
  console.log(JSON.stringify({ seed, seconds: seconds(), ...figures, ...rest }, undefined, 2));
  return result;
}

function isWithoutViolations({ violations, crashes }: CampaignResult): boolean {
  return Object.values(violations).flat().length + crashes.length === 0;
}
