/** Authors of plugins read these plugins as examples, so each one is small. */
import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

const folder = join(import.meta.dirname, "../../../plugins/extras");

function codeLinesOf(plugin: string): number {
  const files = globSync(`${plugin}/**/*.ts`, { cwd: folder });
  const lines = files.flatMap((file) => readFileSync(join(folder, file), "utf8").split("\n"));
  return lines.filter((line) => !/^\s*(\/\/|\/\*|\*|$)/.test(line)).length;
}

for (const plugin of globSync("*/", { cwd: folder })) {
  test(`${plugin} has less than 120 lines of code`, () => {
    const lines = codeLinesOf(plugin);
    assert.ok(lines > 20 && lines < 120, `${lines} lines`);
  });
}
