import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { test } from "node:test";
import { drawPlots, readPage } from "../../bench/plot.ts";

const root = join(import.meta.dirname, "../..");

test("the plots show the tables of their pages", () => {
  for (const [file, { svg, page }] of drawPlots(readPage)) {
    const committed = readFileSync(join(root, file), "utf8");
    assert.equal(committed, svg, `run \`npm run bench -- --plot\` to draw ${file} again`);
    const link = relative(dirname(page), file);
    assert.ok(readPage(page).includes(`(${link})`), `${page} shows ${link}`);
  }
});

test("a table without the column of a plot is an error", () => {
  const column = "CPU µs, 256 connections";
  const renamed = (page: string): string => readPage(page).replaceAll(column, "CPU");
  assert.throws(() => drawPlots(renamed), /no column "CPU µs, 256 connections"/);
  assert.throws(() => drawPlots(() => "# Benchmarks\n"), /no table "The node proxy"/);
});
