/** The plugin kit of the published package: new plugins compile against its types, and are packed. */
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { cpSync } from "node:fs";
import { dirname, join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import { installPackage } from "./package-fixture.ts";

const installed = await installPackage();
const { app, main } = installed;
after(() => installed[Symbol.dispose]());

const root = join(import.meta.dirname, "../..");
const { NODE_TEST_CONTEXT: _, ...env } = process.env;
for (const name of ["@types/node", "undici-types"]) {
  cpSync(join(root, "node_modules", name), join(app, "node_modules", name), { recursive: true });
}

function run(folder: string, ...args: readonly string[]): void {
  const { status, stdout, stderr } = spawnSync(process.execPath, args, {
    cwd: folder,
    env,
    encoding: "utf8",
  });
  assert.equal(status, 0, stdout + stderr);
}

const tsc = join(dirname(fileURLToPath(import.meta.resolve("typescript/package.json"))), "bin/tsc");
const oxlint = join(root, "node_modules/.bin/oxlint");

for (const kind of ["step", "surface", "tools", "service"]) {
  test(`a new ${kind} compiles, passes its lint rules and its tests, and is packed`, () => {
    const folder = join(app, kind);
    run(app, main, "plugin", "new", `acme-${kind}`, "--kind", kind, "--dir", folder);
    run(folder, tsc, "-p", folder);
    run(folder, oxlint, "--deny-warnings");
    run(folder, "--test");
    run(folder, main, "plugin", "test");
    const args = ["pack", "--dry-run", "--ignore-scripts", "--json"];
    const packed = execFileSync("npm", args, { cwd: folder, env, encoding: "utf8" });
    assert.match(packed, /"dist\/index\.d\.ts"/);
    assert.doesNotMatch(packed, /index\.(test|example)/);
  });
}
