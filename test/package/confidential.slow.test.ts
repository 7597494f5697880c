/**
 * The tests of attestation evidence, enclaves and the client, run on the installed package, because users get only what
 * the build makes of the code and its packages. installed.slow.test.ts runs the commands of the module.
 */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { globSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { bundle } from "../../.ci/bundle.ts";
import { root } from "../../.ci/entry-modules.ts";
import { installPackage } from "./package-fixture.ts";

const folders = "attestation,client,enclave,evidence,verify";
const suites = globSync(
  [`{${folders}}/*.test.ts`, "confidential-relay/{admission,policy}.test.ts"],
  { cwd: join(root, "test/plugins/confidential"), exclude: ["**/*.slow.test.ts"] },
).map((path) => join("test/plugins/confidential", path));

/** Bundled for browsers, as its users get it. */
const client = "plugins/confidential/client/client.ts";

test("the tests of the confidential module pass on the installed package", async () => {
  using installed = await installPackage();
  const folder = join(installed.app, "node_modules/sluice-gateway");
  // The same bundle, but with a file for every module, so that the tests can import it.
  const all = globSync("{src,plugins}/**/*.ts", { cwd: root }).filter(
    (path) => !path.endsWith(".d.ts") && path !== client,
  );
  await bundle(root, folder, all, [client]);
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const preload = join(import.meta.dirname, "package-modules.ts");
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    ["--test", "--test-concurrency=2", "--test-reporter=dot", ...suites],
    {
      cwd: root,
      // The commands that the tests start are those of the package, too.
      env: { ...env, SLUICE_TEST_PACKAGE: folder, NODE_OPTIONS: `--import ${preload}` },
      encoding: "utf8",
    },
  );
  assert.equal(status, 0, stdout + stderr);
});
