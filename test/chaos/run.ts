/**
 * `npm run chaos -- --minutes M [--seed S] [--replicas N]`: injects faults into several gateways that share credit, and
 * into their servers, under load. `npm run chaos -- --mode local --rounds N [--seed S]`: the same with one gateway that
 * copies its journal. Prints the figures, and exits with 1 if a promise is broken.
 */
import { parseArgs } from "node:util";
import { installedPostgres } from "../store/programs.ts";
import { runCampaign as runLocal } from "./local/campaign.ts";
import { runCampaign } from "./replicas/campaign.ts";
import { findPrograms } from "./replicas/programs.ts";

const { values } = parseArgs({
  options: {
    mode: { type: "string", default: "replicas" },
    minutes: { type: "string", default: "3" },
    replicas: { type: "string", default: "3" },
    rounds: { type: "string", default: "20" },
    seed: { type: "string" },
  },
});
const minutes = Number(values.minutes);
const replicas = Number(values.replicas);
const rounds = Number(values.rounds);
const seed = values.seed === undefined ? Date.now() | 0 : Number(values.seed);
const isUsage =
  ["replicas", "local"].includes(values.mode) &&
  minutes > 0 &&
  [replicas, rounds].every((each) => Number.isInteger(each) && each > 0) &&
  Number.isInteger(seed);
if (!isUsage) {
  console.error(
    "usage: npm run chaos -- [--minutes M] [--replicas N] [--seed INTEGER]\n" +
      "       npm run chaos -- --mode local [--rounds N] [--seed INTEGER]",
  );
  process.exit(2);
}
const started = performance.now();
const seconds = (): number => Math.round((performance.now() - started) / 1000);
const isWhole = values.mode === "local" ? await local() : await shared();
process.exit(isWhole ? 0 : 1);

async function local(): Promise<boolean> {
  const result = await runLocal({
    rounds,
    seed,
    postgres: await installedPostgres(),
    onRound: (round, fault) => console.log(`round ${round}: ${fault}`),
  });
  console.log(JSON.stringify({ seed, seconds: seconds(), ...result }, undefined, 2));
  const { missing, doubled, different, unpaid } = result;
  return missing + doubled + different + unpaid === 0;
}

async function shared(): Promise<boolean> {
  const programs = await findPrograms();
  if ("missing" in programs) {
    console.error(`install these packages first: ${programs.missing.join(", ")}`);
    return false;
  }
  const { figures, violations, ...rest } = await runCampaign({
    minutes,
    seed,
    replicas,
    programs,
    onFault: (fault) => console.log(`${seconds()} s: ${JSON.stringify(fault)}`),
  });
  for (const [rule, all] of Object.entries(violations)) {
    for (const each of all.slice(0, 10)) console.log(`${rule}: ${each}`);
  }
  console.log(JSON.stringify({ seed, seconds: seconds(), ...figures, ...rest }, undefined, 2));
  return Object.values(violations).flat().length + rest.crashes.length === 0;
}
