/** Writes the tables that the tests compare: `node test/docs/write-tables.ts && npx oxfmt docs`. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { findTable, renderTables, root } from "./tables.ts";

for (const [name, { page, table }] of await renderTables()) {
  const file = join(root, "docs", page);
  const text = readFileSync(file, "utf8");
  const found = findTable(text, name);
  if (found === undefined) throw new Error(`${page} has no marker <!-- table: ${name} -->`);
  const [head = [], ...rows] = table;
  const line = (cells: readonly string[]): string => `| ${cells.join(" | ")} |`;
  const lines = [head, head.map(() => "---"), ...rows].map(line);
  if (found.lines.length === 0) lines.push("");
  const all = text.split("\n");
  all.splice(found.at, found.lines.length, ...lines);
  writeFileSync(file, all.join("\n"));
}
