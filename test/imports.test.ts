/** Files must not import in a circle. Type imports count too, because a reader has to follow them as well. */
import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { test } from "node:test";

const root = join(import.meta.dirname, "..");
/** There must be no circle among the files of these folders. Imports of other folders are not followed. */
const folders = `
    src plugins/billing plugins/confidential plugins/contracts plugins/dashboard plugins/edge
    plugins/extras plugins/inference plugins/ledger plugins/tools`
  .trim()
  .split(/\s+/);
const importPattern = /(?:\bfrom\s+|\bimport\s*\(\s*|^import\s+)"(\.{1,2}\/[^"]+\.ts)"/gm;

const files = globSync(
  folders.map((folder) => `${folder}/**/*.ts`),
  { cwd: root },
).map((file) => join(root, file));
const imports = new Map(files.map((file) => [file, importsOf(file)]));

function importsOf(file: string): string[] {
  const found = readFileSync(file, "utf8").matchAll(importPattern);
  return Array.from(found, ([, path = ""]) => resolve(dirname(file), path));
}

/** Returns the shortest chain of imports from a file back to itself. */
function circleOf(start: string): string[] | undefined {
  const chains = [[start]];
  const seen = new Set<string>();
  for (const chain of chains) {
    for (const next of imports.get(chain.at(-1) ?? "") ?? []) {
      if (next === start) return [...chain, start].map((file) => relative(root, file));
      if (!seen.has(next)) chains.push([...chain, next]);
      seen.add(next);
    }
  }
  return undefined;
}

test(`no circular imports in ${folders.join(", ")}`, () => {
  assert.ok(files.length > 50);
  const circles = files.flatMap((file) => circleOf(file)?.join(" -> ") ?? []);
  assert.deepEqual(circles, []);
});
