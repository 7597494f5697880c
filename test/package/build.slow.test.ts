/** The build of the published package, and the package in an empty folder. installed.slow.test.ts runs its commands. */
import assert from "node:assert/strict";
import {
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, relative } from "node:path";
import { after, test, type TestContext } from "node:test";
import { createHash } from "node:crypto";
import { spawnSync } from "node:child_process";
import { bundle } from "../../.ci/bundle.ts";
import { root } from "../../.ci/entry-modules.ts";
import { temporaryFolder } from "../store/folder.ts";
import { buildPackage, packedPackage, installPackage } from "./package-fixture.ts";

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

function hashesOf(folder: string): ReadonlyMap<string, string> {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => join(parentPath, name));
  return new Map(
    files.map((file) => [
      relative(folder, file),
      createHash("sha256").update(readFileSync(file)).digest("hex"),
    ]),
  );
}

test("two builds in different folders have the same files", async (t) => {
  const second = join(temporaryFolder(t), "two/deeper");
  buildPackage(second);
  const [one, two] = [hashesOf((await packedPackage()).dist), hashesOf(second)];
  assert.ok(one.size > 100);
  const paths = new Set([...one.keys(), ...two.keys()]);
  const different = [...paths].filter((path) => one.get(path) !== two.get(path));
  assert.deepEqual(different, []);
});

/** The messages of npm if it reaches no registry. */
const unreachable = /ENOTFOUND|ECONNREFUSED|EAI_AGAIN|ETIMEDOUT|ENETUNREACH/;

/** The folder in which the first script installs the package. The second one copies the installed packages. */
const home = join(mkdtempSync(join(tmpdir(), "sluice-try-")), "home");
mkdirSync(home);
after(() => rmSync(dirname(home), { recursive: true }));

/** Runs a script of .ci with the packed package. Returns what it prints, or undefined without the registry. */
async function tryIt(t: TestContext, script: string, folder?: string): Promise<string | undefined> {
  const { tarball } = await packedPackage();
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const options = { encoding: "utf8", env, timeout: 600_000 } as const;
  const path = join(import.meta.dirname, "../../.ci", script);
  const { status, stdout, stderr } = spawnSync(
    path,
    [tarball, ...(folder === undefined ? [] : [folder])],
    options,
  );
  if (status !== 0 && unreachable.test(stderr) && process.env["CI"] !== "true") {
    t.skip("needs the registry of npm");
    return undefined;
  }
  assert.equal(status, 0, stdout + stderr);
  return stdout;
}

test("npm installs the packed package, and sluice dev, init and start answer", async (t) => {
  const stdout = await tryIt(t, "try-package", home);
  if (stdout === undefined) return;
  assert.match(stdout, /"result":\{"peers":0/);
  assert.match(stdout, /"status":"ok"[^]*== done/);
});

test("a new plugin is checked, tested, packed, added and answers", async (t) => {
  const isInstalled = existsSync(join(home, "node_modules/sluice-gateway"));
  const stdout = await tryIt(t, "try-plugin", isInstalled ? home : undefined);
  if (stdout === undefined) return;
  const summary = /^== done: .*$/m.exec(stdout)?.[0] ?? "";
  t.diagnostic(summary);
  assert.match(summary, /^== done: \d+ s .* index\.ts has \d+ lines$/);
});

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
    // One process, because loading the package takes longer than most of these tests.
    ["--test", "--test-isolation=none", "--test-reporter=dot", ...suites],
    {
      cwd: root,
      // The commands that the tests start are those of the package, too.
      env: { ...env, SLUICE_TEST_PACKAGE: folder, NODE_OPTIONS: `--import ${preload}` },
      encoding: "utf8",
    },
  );
  assert.equal(status, 0, stdout + stderr);
});
