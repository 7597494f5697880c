/**
 * `npm run chaos -- --rounds N [--seed S]`: kills a gateway and its PostgreSQL under load and prints what was lost.
 * Exits with 1 if a charge is missing, doubled or different.
 */
import { parseArgs } from "node:util";
import { installedPostgres } from "../store/programs.ts";
import { runCampaign } from "./campaign.ts";

const { values } = parseArgs({
  options: { rounds: { type: "string", default: "20" }, seed: { type: "string" } },
});
const rounds = Number(values.rounds);
const seed = values.seed === undefined ? Date.now() | 0 : Number(values.seed);
if (!Number.isInteger(rounds) || rounds < 1 || !Number.isInteger(seed)) {
  console.error("usage: npm run chaos -- [--rounds N] [--seed INTEGER]");
  process.exit(2);
}
const started = performance.now();
const result = await runCampaign({
  rounds,
  seed,
  postgres: await installedPostgres(),
  onRound: (round, fault) => console.log(`round ${round}: ${fault}`),
});
const seconds = Math.round((performance.now() - started) / 1000);
console.log(JSON.stringify({ seed, seconds, ...result }, undefined, 2));
const { missing, doubled, different, unpaid } = result;
process.exit(missing + doubled + different + unpaid === 0 ? 0 : 1);
