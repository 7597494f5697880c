import assert from "node:assert/strict";
import { globSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { bundle } from "../../.ci/bundle.ts";
import { browserModules, root } from "../../.ci/entry-modules.ts";
import { temporaryFolder } from "../store/folder.ts";

test("the build refuses an import() of a CommonJS module, whose exports esbuild would lose", async (t) => {
  const folder = temporaryFolder(t);
  const module = join(folder, "module.ts");
  writeFileSync(join(folder, "common.cjs"), "exports.name = 1;");
  writeFileSync(module, `export const load = () => import("./common.cjs");`);
  await assert.rejects(
    bundle(root, join(folder, "dist"), [module], []),
    /module\.ts: import\(\) of \S*common\.cjs, a CommonJS module/,
  );
});

// Finding N12: an uncaught error of the client printed a line of 40 KB before its stack.
test("the lines of the client that are printed with an uncaught error are short", async (t) => {
  const dist = temporaryFolder(t);
  await bundle(root, dist, [], browserModules);
  const files = globSync("plugins/confidential/client/*.js", { cwd: dist });
  assert.ok(files.length > 0);
  for (const file of files) {
    const lines = readFileSync(join(dist, file), "utf8").split("\n");
    const longest = Math.max(...lines.map((line) => line.length));
    assert.ok(longest < 2_000, `${file}: a line has ${longest} characters`);
  }
});
