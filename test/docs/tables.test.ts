import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { findTable, renderTables, root } from "./tables.ts";

const hint = "run `node test/docs/write-tables.ts && npx oxfmt docs`";

/** Cells without the padding that the formatter adds. An escaped bar is part of its cell. */
function cells(line: string): string[] {
  return line
    .split(/(?<!\\)\|/)
    .slice(1, -1)
    .map((cell) => cell.trim());
}

for (const [name, { page, table }] of await renderTables()) {
  test(`the table "${name}" of docs/${page} agrees with the code`, () => {
    const text = readFileSync(join(root, "docs", page), "utf8");
    const written = findTable(text, name)?.lines.map(cells) ?? [];
    const [head, , ...rows] = written;
    assert.ok(table.length > 1);
    assert.deepEqual([head, ...rows], table, hint);
  });
}
