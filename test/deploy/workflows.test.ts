/** The workflows of GitHub Actions, which have not run: only their form is checked. */
import assert from "node:assert/strict";
import { existsSync, globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { parse } from "yaml";

const root = join(import.meta.dirname, "../..");

interface Workflow {
  readonly permissions: object;
  readonly jobs: Readonly<
    Record<
      string,
      { readonly needs?: string; readonly steps: readonly { readonly run?: string }[] }
    >
  >;
}

test("workflows have least rights by default, and name jobs, scripts and files that exist", () => {
  const files = globSync(".github/workflows/*.yaml", { cwd: root });
  assert.ok(files.length >= 2);
  for (const file of files) {
    const { permissions, jobs } = parse(readFileSync(join(root, file), "utf8")) as Workflow;
    assert.deepEqual(permissions, { contents: "read" }, file);
    for (const { needs, steps } of Object.values(jobs)) {
      if (needs !== undefined) assert.ok(Object.hasOwn(jobs, needs), needs);
      for (const { run = "" } of steps) {
        for (const path of run.match(/(?<![\w./:@-])(?:\.ci|deploy)\/[\w./-]+/g) ?? []) {
          assert.ok(existsSync(join(root, path)), path);
        }
      }
    }
  }
});
