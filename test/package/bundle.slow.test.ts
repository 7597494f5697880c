import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { bundle } from "../../.ci/bundle.ts";
import { root } from "../../.ci/entry-modules.ts";
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
