/** The published package, as `npm install` puts it below node_modules: built, packed, and run in a user's folder. */
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  symlinkSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { after, before, test } from "node:test";
import { templateNames } from "../../src/commands/init.ts";

const root = join(import.meta.dirname, "../..");
let folder: string;
let tarball: string;
let app: string;

/** Builds and packs the package; offline, in some seconds. */
before(() => {
  folder = mkdtempSync(join(tmpdir(), "sluice-package-"));
  const dist = join(folder, "dist");
  const bin = join(root, "node_modules", ".bin");
  const env = { ...process.env, PATH: `${bin}${delimiter}${process.env["PATH"]}` };
  execFileSync(process.execPath, [join(root, ".ci/build.ts"), dist], { env, stdio: "pipe" });
  const pack = ["pack", dist, "--pack-destination", folder, "--json", "--ignore-scripts"];
  execFileSync("npm", pack, { cwd: folder, stdio: "pipe" });
  const [file = ""] = readdirSync(folder).filter((name) => name.endsWith(".tgz"));
  tarball = join(folder, file);
  app = join(folder, "app");
  mkdirSync(join(app, "node_modules"), { recursive: true });
  linkDependencies(join(app, "node_modules"));
  install();
});
after(() => rmSync(folder, { recursive: true, force: true }));

/** The dependencies of the checkout stand in for those that npm would fetch. */
function linkDependencies(target: string): void {
  for (const name of readdirSync(join(root, "node_modules"))) {
    if (name.startsWith(".") || name === "sluice-gateway") continue;
    symlinkSync(join(root, "node_modules", name), join(target, name));
  }
}

/** Replaces the package's folder by a new one from the tarball, as npm does. */
function install(): void {
  const target = join(app, "node_modules", "sluice-gateway");
  rmSync(target, { recursive: true, force: true });
  execFileSync("tar", ["-xzf", tarball, "-C", join(app, "node_modules")]);
  renameSync(join(app, "node_modules", "package"), target);
}

function sluice(...args: readonly string[]) {
  const main = join(app, "node_modules", "sluice-gateway", "src", "main.js");
  const { SLUICE_CONFIG: _, DATA_DIR: __, GATEWAY_ENV: ___, ...env } = process.env;
  const { status, stdout, stderr } = spawnSync(process.execPath, [main, ...args], {
    cwd: app,
    env,
    encoding: "utf8",
  });
  return { status, stdout, stderr };
}

// D1: accounts were kept in node_modules/sluice-gateway/data, and every upgrade deleted them.
test("accounts survive an upgrade of the package", () => {
  const create = ["workspaces", "create", "--name", "acme", "--plan", "developer"];
  const refused = sluice(...create);
  assert.equal(refused.status, 1);
  assert.match(refused.stderr, /SLUICE_FILE_MISSING[^]*sluice init/);
  const inPackage = sluice(...create, "--config", "node_modules/sluice-gateway/pipeline.yaml");
  assert.equal(inPackage.status, 1);
  assert.match(inPackage.stderr, /SLUICE_STORE_MISPLACED/);

  assert.equal(sluice("init").status, 0);
  assert.equal(sluice(...create).status, 0);
  const kept = sluice("workspaces", "list", "--json").stdout;
  assert.match(kept, /acme/);
  install();
  assert.equal(sluice("workspaces", "list", "--json").stdout, kept);
  assert.ok(existsSync(join(app, "data", "accounts.db")));
});

for (const template of templateNames) {
  test(`the package has the template ${template}, and the file is in order`, () => {
    const target = join(app, template);
    const { status, stderr } = sluice("init", "--template", template, "--dir", target);
    assert.equal(status, 0, stderr);
    const checked = sluice("check", "--config", join(target, "pipeline.yaml"));
    assert.equal(checked.status, 0, checked.stdout);
  });
}
