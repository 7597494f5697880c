/** What the published package must find although its modules end in .js there. */
import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

const root = join(import.meta.dirname, "../..");

test("no module of a thread is named by its .ts alone", () => {
  const files = globSync("{src,plugins}/**/*.ts", { cwd: root });
  assert.ok(files.length > 100);
  const wrong = files.filter((file) =>
    /new URL\(\s*"[^"]+\.ts"/.test(readFileSync(join(root, file), "utf8")),
  );
  assert.deepEqual(wrong, []);
});
