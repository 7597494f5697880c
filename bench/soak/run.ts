/**
 * `npm run soak -- --minutes N [--seed S] [--threads N]` prints a Markdown table with a row per minute, and a table of
 * the totals. It exits with 1 after a lost or doubled charge, a leak or a crash. See bench/README.md.
 */
import { parseArgs } from "node:util";
import { tableHead, tableRow } from "./sample.ts";
import { soak } from "./soak.ts";

const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: "20" },
    seed: { type: "string", default: "1" },
    threads: { type: "string", default: "1" },
  },
});
const minutes = Number(values.minutes);
const seed = Number(values.seed);
const threads = Number(values.threads);
if (!(minutes > 0) || !Number.isInteger(seed) || !(threads > 0)) {
  console.error("usage: npm run soak -- [--minutes N] [--seed INTEGER] [--threads N]");
  process.exit(2);
}

console.log(`${minutes} minutes, seed ${seed}, threads: ${threads}\n\n${tableHead}`);
const result = await soak({
  seconds: minutes * 60,
  seed,
  threads,
  sampleSeconds: Math.min(60, minutes * 15),
  onSample: (sample) => console.log(tableRow(sample)),
});
const { book } = result;
const rows = [
  ["requests", book.requests],
  ["reloads", result.reloads],
  ["answers with a price", book.priced],
  ["milli-CU in those answers", book.pricedMilli],
  ["charges in the journal", book.charges],
  ["milli-CU in the journal", book.chargedMilli],
  ["lost, doubled or wrong charges", book.faults.length],
  ["exit code", result.exit],
  ["seconds from SIGTERM to the exit", result.exitSeconds.toFixed(1)],
];
console.log(`\n| at the end | |\n| --- | --- |`);
for (const [name, value] of rows) console.log(`| ${name} | ${value} |`);
for (const fault of result.faults.slice(0, 40)) console.error(`FAILED: ${fault}`);
process.exit(result.faults.length > 0 ? 1 : 0);
