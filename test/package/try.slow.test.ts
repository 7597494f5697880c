/** From the packed package to an answer, with npm itself, in an empty folder. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { packedPackage } from "./package-fixture.ts";

/** The messages of npm if it reaches no registry. */
const unreachable = /ENOTFOUND|ECONNREFUSED|EAI_AGAIN|ETIMEDOUT|ENETUNREACH/;

/** Runs a script of .ci with the packed package. Returns what it prints, or undefined without the registry. */
async function tryIt(t: TestContext, script: string): Promise<string | undefined> {
  const { tarball } = await packedPackage();
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const options = { encoding: "utf8", env, timeout: 600_000 } as const;
  const path = join(import.meta.dirname, "../../.ci", script);
  const { status, stdout, stderr } = spawnSync(path, [tarball], options);
  if (status !== 0 && unreachable.test(stderr) && process.env["CI"] !== "true") {
    t.skip("needs the registry of npm");
    return undefined;
  }
  assert.equal(status, 0, stdout + stderr);
  return stdout;
}

test("npm installs the packed package, and sluice dev, init and start answer", async (t) => {
  const stdout = await tryIt(t, "try-package");
  if (stdout === undefined) return;
  assert.match(stdout, /"result":\{"peers":0/);
  assert.match(stdout, /"status":"ok"[^]*== done/);
});

test("a new plugin is checked, tested, packed, added and answers", async (t) => {
  const stdout = await tryIt(t, "try-plugin");
  if (stdout === undefined) return;
  const summary = /^== done: .*$/m.exec(stdout)?.[0] ?? "";
  t.diagnostic(summary);
  assert.match(summary, /^== done: \d+ s .* index\.ts has \d+ lines$/);
});
