import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { drawPlots } from "../../bench/plot.ts";

const folder = join(import.meta.dirname, "../../bench");
const page = readFileSync(join(folder, "README.md"), "utf8");

test("the plots show the tables of bench/README.md", () => {
  for (const [file, svg] of drawPlots(page)) {
    const committed = readFileSync(join(folder, "plots", file), "utf8");
    assert.equal(committed, svg, `run \`npm run bench -- --plot\` to draw ${file} again`);
    assert.ok(page.includes(`(plots/${file})`), `bench/README.md shows ${file}`);
  }
});

test("a table without the column of a plot is an error", () => {
  assert.throws(() => drawPlots(page.replaceAll("CPU µs/call", "CPU")), /no column "CPU µs\/call"/);
  assert.throws(() => drawPlots("# Benchmarks\n"), /no table "The node proxy"/);
});
