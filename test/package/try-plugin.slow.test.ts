/** From an empty folder to a packed plugin in a running gateway, with npm itself. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { test } from "node:test";
import { packedPackage } from "./package-fixture.ts";

const script = join(import.meta.dirname, "../../.ci/try-plugin");
/** The messages of npm if it reaches no registry. */
const unreachable = /ENOTFOUND|ECONNREFUSED|EAI_AGAIN|ETIMEDOUT|ENETUNREACH/;

test("a new plugin is checked, tested, packed, added and answers", async (t) => {
  const { tarball } = await packedPackage();
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const { status, stdout, stderr } = spawnSync(script, [tarball], {
    encoding: "utf8",
    env,
    timeout: 600_000,
  });
  if (status !== 0 && unreachable.test(stderr) && process.env["CI"] !== "true") {
    t.skip("needs the registry of npm");
    return;
  }
  assert.equal(status, 0, stdout + stderr);
  const summary = /^== done: .*$/m.exec(stdout)?.[0] ?? "";
  t.diagnostic(summary);
  assert.match(summary, /^== done: \d+ s .* index\.ts has \d+ lines$/);
});
