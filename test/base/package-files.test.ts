/** Tests that the source names the modules of threads in a form that the build can find. */
import assert from "node:assert/strict";
import { existsSync, globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { packageRoot, threadModule } from "../../src/base/package-files.ts";

const sources = globSync("{src,plugins}/**/*.ts", { cwd: packageRoot }).map((file) => ({
  file,
  text: readFileSync(join(packageRoot, file), "utf8"),
}));

// The build finds the modules of threads by the same pattern (.ci/bundle.ts).
test("every module that a thread runs exists, and is named by a string literal", () => {
  const calls = sources.flatMap(({ text }) => text.match(/(?<!function )\bthreadModule\(/g) ?? []);
  const paths = sources.flatMap(({ text }) => [...text.matchAll(/\bthreadModule\("([^"]+)"\)/g)]);
  assert.ok(paths.length >= 6);
  assert.equal(paths.length, calls.length);
  for (const [, path = ""] of paths) {
    assert.ok(existsSync(fileURLToPath(threadModule(path))), path);
  }
});

// In the bundle, the code of a module is in another file than the module.
test("no module finds a file relative to its own location", () => {
  const mayUse = new Set(["src/base/package-files.ts"]);
  const wrong = sources.filter(
    ({ file, text }) =>
      !mayUse.has(file) && /new URL\([^)]*import\.meta\.url|import\.meta\.dirname/.test(text),
  );
  assert.deepEqual(
    wrong.map(({ file }) => file),
    [],
  );
});
