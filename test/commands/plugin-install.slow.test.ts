/** `sluice plugin add` runs no scripts and no programs of a package, and guards the route that it adds. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { promisify } from "node:util";
import { check } from "../../src/commands/check.ts";
import { plugin } from "../../src/commands/plugin/plugin.ts";
import { commandLine, type CommandLine } from "./command-line.ts";

const run = promisify(execFile);

interface Packed extends CommandLine {
  readonly tarball: string;
}

/** Packs a package with a surface. `more`: members of its package.json. `surface`: name of the plugin. */
async function packed(
  t: TestContext,
  more: { readonly name?: string; readonly [member: string]: unknown } = {},
  surface = "acme-page",
): Promise<Packed> {
  const line = commandLine(t);
  const source = join(line.folder, "source");
  mkdirSync(source);
  const about = { kind: "surface", name: surface, description: "A test." };
  const { name = "acme-pages" } = more;
  const version = "1.0.0";
  const write = (file: string, text: string): void => writeFileSync(join(source, file), text);
  const type = "module";
  write("package.json", JSON.stringify({ version, type, exports: "./index.js", ...more, name }));
  write("index.js", `export default { ...${JSON.stringify(about)}, start: () => ({}) };`);
  await run("npm", ["pack", source, "--ignore-scripts"], { cwd: line.folder });
  return { ...line, tarball: join(line.folder, `${name}-${version}.tgz`) };
}

/**
 * Makes a git repository with a package that npm prepares when it fetches it, and whose settings of npm name a program
 * in place of git. The program writes the file `marker`.
 */
async function hostileRepository(folder: string, marker: string): Promise<string> {
  const repository = join(folder, "repository");
  mkdirSync(repository);
  const write = (file: string, text: string): void => writeFileSync(join(repository, file), text);
  const devDependencies = { other: "git+ssh://127.0.0.1:1/none.git" };
  const scripts = { prepare: "true" };
  write(
    "package.json",
    JSON.stringify({ name: "hostile", version: "1.0.0", scripts, devDependencies }),
  );
  write(".npmrc", "git=./run.sh\n");
  write("run.sh", `#!/bin/sh\necho ran > '${marker}'\nexit 1\n`);
  chmodSync(join(repository, "run.sh"), 0o755);
  const git = (...args: string[]): Promise<unknown> =>
    run("git", ["-c", "user.name=test", "-c", "user.email=test@acme.test", ...args], {
      cwd: repository,
    });
  await git("init", "-q");
  await git("add", "-A");
  await git("commit", "-q", "-m", "test");
  return `git+file://${repository}`;
}

test("add refuses a dependency from git, and runs no program that its repository names", async (t) => {
  const markers = commandLine(t);
  const marker = join(markers.folder, "marker");
  const hostile = await hostileRepository(markers.folder, marker);
  const line = await packed(t, { dependencies: { hostile } });
  const before = readFileSync(line.configFile, "utf8");
  const { code, err } = await line.run(plugin, "add", line.tarball);
  assert.equal(code, 1);
  assert.match(err.join("\n"), /nothing was installed: npm install .* failed:/);
  assert.equal(existsSync(marker), false);
  assert.equal(readFileSync(line.configFile, "utf8"), before);
  // A version of npm without --allow-git reads only these options.
  const old = ["install", line.tarball, "--ignore-scripts", "--git=false"];
  await assert.rejects(run("npm", old, { cwd: line.folder }), /command false/);
  assert.equal(existsSync(marker), false);
});

test("add refuses a package whose program is called sluice, and makes no programs", async (t) => {
  for (const bin of [{ sluice: "./index.js" }, { other: "./index.js" }]) {
    const line = await packed(t, { bin });
    const { code, err } = await line.run(plugin, "add", line.tarball);
    const isRefused = "sluice" in bin;
    assert.equal(code, isRefused ? 1 : 0, err.join("\n"));
    assert.equal(existsSync(join(line.folder, "node_modules/.bin")), false);
    assert.equal(existsSync(join(line.folder, "node_modules/acme-pages")), !isRefused);
    if (isRefused) assert.match(err.join("\n"), /nothing was installed: .* called "sluice"/);
  }
});

test("add installs the tarball that is named, although the name of another one ends with it", async (t) => {
  const line = await packed(t);
  const other = await packed(t, { name: "a-acme-pages" }, "other-page");
  for (const [tarball, name] of [
    [other.tarball, "a-acme-pages"],
    [line.tarball, "acme-pages"],
    [`file:${line.tarball}`, "acme-pages"],
  ] as const) {
    assert.equal((await line.json(plugin, "add", tarball))["package"], name);
  }
});

test("add names the packages whose install scripts did not run", async (t) => {
  const line = await packed(t, { scripts: { postinstall: "exit 1" } });
  const { code, err } = await line.run(plugin, "add", line.tarball);
  assert.equal(code, 0);
  assert.match(
    err.join("\n"),
    /scripts of acme-pages did not run\. .* run npm rebuild acme-pages\.$/,
  );
});

const routes = `version: 1
lists:
  edge: [request-id]
  rare: [request-id]
routes:
  - { path: /a, run: [{ use: rare }], to: front-page }
  - { path: /b, run: [{ use: edge }, access-log], to: front-page }
  - { path: /c, run: [{ use: edge }], to: front-page }
`;

test("add --path runs the list that most routes run, or the list of --list", async (t) => {
  for (const [options, expected] of [
    [[], "edge"],
    [["--list", "rare"], "rare"],
  ] as const) {
    const line = await packed(t);
    writeFileSync(line.configFile, routes);
    const { code, out, err } = await line.run(
      plugin,
      "add",
      line.tarball,
      "--path",
      "/x",
      ...options,
    );
    assert.deepEqual([code, err], [0, []]);
    const text = readFileSync(line.configFile, "utf8");
    assert.ok(text.includes(`{ path: "/x", run: [{ use: ${expected} }], to: acme-page }\n`), text);
    assert.match(out.join("\n"), /The route of acme-page runs the steps \[\{"use":"/);
  }
});

test("add --path says that a route is public, and check --strict reports a route without run", async (t) => {
  const line = await packed(t);
  const { out } = await line.run(plugin, "add", line.tarball, "--path", "/x");
  assert.match(readFileSync(line.configFile, "utf8"), /path: "\/x", run: \[\], to: acme-page/);
  assert.match(out.join("\n"), /The route of acme-page runs no steps, so it is public/);
  writeFileSync(line.configFile, "version: 1\nroutes:\n  - { path: /x, to: front-page }\n");
  const { out: faults } = await line.run(check, "--strict");
  assert.match(
    faults.join("\n"),
    /SLUICE_STRICT_PUBLIC {2}the route \/x is public: it has no `run:`/,
  );
});
