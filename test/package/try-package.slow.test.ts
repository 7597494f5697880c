/** From the packed package to an answer, with npm itself, in an empty folder. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { test } from "node:test";
import { packedPackage } from "./package-fixture.ts";

const script = join(import.meta.dirname, "../../.ci/try-package");
/** The messages of npm if it reaches no registry. */
const unreachable = /ENOTFOUND|ECONNREFUSED|EAI_AGAIN|ETIMEDOUT|ENETUNREACH/;

test("npm installs the packed package, and sluice dev, init and start answer", async (t) => {
  const { tarball } = await packedPackage();
  const { status, stdout, stderr } = spawnSync(script, [tarball], {
    encoding: "utf8",
    timeout: 300_000,
  });
  if (status !== 0 && unreachable.test(stderr) && process.env["CI"] !== "true") {
    t.skip("needs the registry of npm");
    return;
  }
  assert.equal(status, 0, stdout + stderr);
  assert.match(stdout, /"result":\{"peers":0/);
  assert.match(stdout, /"status":"ok"[^]*== done/);
});
