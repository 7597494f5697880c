import assert from "node:assert/strict";
import { globSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { assetsOf } from "../../.ci/assets.ts";

const root = join(import.meta.dirname, "../..");

test("all files that the sources load in addition to code are published", () => {
  const published = new Set(assetsOf(root));
  const files = globSync("{src,plugins}/**/*.*", { cwd: root }).filter(
    (path) => !/\.ts$|\/(README|notes)\.md$|\/tsconfig\.json$/.test(path),
  );
  assert.ok(files.includes("plugins/dashboard/dashboard/page/index.html"));
  assert.deepEqual(
    files.filter((path) => !published.has(path)),
    [],
  );
});
