/**
 * Plugins in node_modules that are links, and paths into node_modules. The place where a module is really located decides
 * whether it is a package, which needs its line in pipeline.lock, or local code.
 */
import assert from "node:assert/strict";
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test, type TestContext } from "node:test";
import { pathToFileURL } from "node:url";
import { check } from "../../src/commands/check.ts";
import { checkFile } from "../../src/pipeline/load/check-file.ts";
import { lockLine, writeLock } from "../../src/pipeline/load/lock-file.ts";
import { packageIn, type PluginData } from "../../src/pipeline/load/plugin-file.ts";
import type { JsonSchema } from "../../src/plugin.ts";
import { commandLine, type CommandLine } from "./command-line.ts";

/** The member of globalThis that counts the imports of the plugins of these tests. */
const imports = "sluiceTestImports";

const options = (name: string): JsonSchema => ({
  type: "object",
  properties: { [name]: { type: "integer" } },
  additionalProperties: false,
});
const manifest: PluginData = {
  kind: "step",
  name: "acme",
  description: "A test.",
  options: options("coded"),
};
const code = `globalThis.${imports} = (globalThis.${imports} ?? 0) + 1;
export default { ...${JSON.stringify(manifest)}, start: () => ({}) };`;
const packed = {
  format: 1,
  package: "acme",
  version: "1.0.0",
  plugins: { ".": { ...manifest, options: options("packed") } },
};
const locked = "{ version: 1.0.0, integrity: sha512-x, grants: {} }";

interface Project extends CommandLine {
  /** Returns the codes of the faults of a start with this source under `plugins:`. */
  codes(source: string): Promise<string[]>;
  /** Returns how often the code has been imported. */
  imported(): number;
}

function project(t: TestContext): Project {
  const line = commandLine(t);
  Reflect.deleteProperty(globalThis, imports);
  t.after(() => Reflect.deleteProperty(globalThis, imports));
  return {
    ...line,
    codes: async (source) => {
      writePipeline(line, source);
      const { faults } = await checkFile(line.configFile, {});
      return faults.map((fault) => fault.code);
    },
    imported: () => Number(Reflect.get(globalThis, imports) ?? 0),
  };
}

function writePipeline({ configFile }: CommandLine, source: string): void {
  const plugins = `plugins: { acme: ${JSON.stringify(source)} }`;
  const route = "{ path: /x, run: [acme], to: front-page }";
  writeFileSync(configFile, `version: 1\n${plugins}\nroutes:\n  - ${route}\n`);
}

/** Writes a package to a folder of the project. `files`: further files. */
function writePackage(
  { folder }: CommandLine,
  place: string,
  files: Readonly<Record<string, string>> = {},
): void {
  const all = {
    "package.json":
      '{ "name": "acme", "version": "1.0.0", "type": "module", "exports": "./index.js" }',
    "index.js": code,
    "sluice-plugin.json": JSON.stringify(packed),
    ...files,
  };
  for (const [name, text] of Object.entries(all)) {
    const path = join(folder, place, name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
  }
}

function link({ folder }: CommandLine, from: string, to: string): void {
  mkdirSync(join(folder, from, ".."), { recursive: true });
  symlinkSync(join(folder, to), join(folder, from), "dir");
}

/** A project whose package is linked, as `npm link` and npm workspaces do it. */
function linkedProject(t: TestContext): Project {
  const made = project(t);
  writePackage(made, "packages/acme");
  link(made, "node_modules/acme", "packages/acme");
  return made;
}

test("a linked package is local code: its code decides, and the check states it", async (t) => {
  const made = linkedProject(t);
  assert.deepEqual(await made.codes("acme"), []);
  assert.equal(made.imported(), 1);
  const { startable } = await checkFile(made.configFile, {});
  assert.equal(startable?.origins.get("acme")?.from, "link");
  const file = join(made.folder, "packages/acme/index.js");
  const { code: exit, out } = await made.run(check);
  assert.equal(exit, 0);
  const [heading, line = ""] = out.slice(-2);
  assert.equal(heading, "\nLocal code under the name of a package, without a lock:");
  assert.match(line, /^ {2}acme: acme is a link to .*packages\/acme\/index\.js$/);
  const { linked } = await made.json(check);
  assert.deepEqual(linked, [{ plugin: "acme", package: "acme", file }]);
});

test("the schema of the editor has the options in the code of a linked package", async (t) => {
  const made = linkedProject(t);
  writePipeline(made, "acme");
  const schema = join(made.folder, "schema.json");
  assert.equal((await made.run(check, "--write-schema", schema)).code, 0);
  const text = readFileSync(schema, "utf8");
  assert.deepEqual([/"coded"/.test(text), /"packed"/.test(text)], [true, false]);
  // It is not an installed package, whose options the schema has although pipeline.yaml does not name it.
  writeFileSync(made.configFile, "version: 1\nroutes:\n  - { path: /x, to: front-page }\n");
  assert.equal((await made.run(check, "--write-schema", schema)).code, 0);
  assert.doesNotMatch(readFileSync(schema, "utf8"), /"packed"/);
});

test("a linked package needs no line in pipeline.lock, and none can match it", async (t) => {
  const made = linkedProject(t);
  const lock = join(made.folder, "pipeline.lock");
  writeFileSync(lock, "# empty\n");
  assert.deepEqual(await made.codes("acme"), []);
  assert.equal(made.imported(), 1);

  const other = linkedProject(t);
  writeFileSync(join(other.folder, "pipeline.lock"), `acme: ${locked}\n`);
  assert.deepEqual(await other.codes("acme"), ["SLUICE_LOCK_DIFFERS"]);
  assert.equal(other.imported(), 0);
  const { out } = await other.run(check);
  assert.match(out.join("\n"), /version 1\.0\.0, but the package is a link to .*packages\/acme/);
});

test("check --strict refuses a linked package, but not a path", async (t) => {
  const made = linkedProject(t);
  writePipeline(made, "acme");
  const strict = async (): Promise<string> => (await made.run(check, "--strict")).out.join("\n");
  assert.match(await strict(), /:2:12 {2}SLUICE_STRICT_LINKED {2}the plugin "acme" is local code/);
  writePipeline(made, "./packages/acme");
  assert.doesNotMatch(await strict(), /LINKED/);
});

test("a path into node_modules is a fault that names the package, and its code does not run", async (t) => {
  const made = linkedProject(t);
  writePackage(made, "node_modules/@acme/real");
  link(made, "alias", "node_modules/@acme/real");
  const sources = {
    "./node_modules/@acme/real": "@acme/real",
    "./node_modules/@acme/real/index.js": "@acme/real",
    [pathToFileURL(join(made.folder, "node_modules/@acme/real/index.js")).href]: "@acme/real",
    "./alias/index.js": "@acme/real",
    "./node_modules/acme/index.js": "acme",
  };
  for (const [source, name] of Object.entries(sources)) {
    writePipeline(made, source);
    const { faults } = await checkFile(made.configFile, {});
    const found = faults.map(({ code: each, didYouMean }) => [each, didYouMean]);
    assert.deepEqual(found, [["SLUICE_PLUGIN_PACKAGE", name]], source);
  }
  assert.equal(made.imported(), 0);
});

test("a link to another node_modules folder is a package, as pnpm installs it", async (t) => {
  const made = project(t);
  writePackage(made, "node_modules/.pnpm/acme@1.0.0/node_modules/acme", {
    "sluice-plugin.json": JSON.stringify({ ...packed, plugins: { ".": manifest } }),
  });
  link(made, "node_modules/acme", "node_modules/.pnpm/acme@1.0.0/node_modules/acme");
  assert.deepEqual(await made.codes("acme"), []);
  assert.equal(made.imported(), 1);
  writeFileSync(join(made.folder, "pipeline.lock"), "# empty\n");
  assert.deepEqual(await made.codes("acme"), ["SLUICE_LOCK_MISSING"]);
  const { startable } = await checkFile(made.configFile, {}, { asData: true });
  assert.equal(startable?.origins.get("acme")?.from, "package");
});

test("a package is locked although its package.json is missing or another one is nearer", async (t) => {
  const made = project(t);
  writeFileSync(join(made.folder, "pipeline.lock"), "# empty\n");
  mkdirSync(join(made.folder, "node_modules/bare"), { recursive: true });
  writeFileSync(join(made.folder, "node_modules/bare/index.js"), code);
  assert.deepEqual(await made.codes("bare/index.js"), ["SLUICE_LOCK_MISSING"]);
  writePackage(made, "node_modules/acme", {
    "package.json": '{ "name": "acme", "version": "1.0.0", "exports": "./inner/index.js" }',
    "inner/package.json": '{ "name": "inner", "type": "module" }',
    "inner/index.js": code,
  });
  assert.deepEqual(await made.codes("acme"), ["SLUICE_LOCK_MISSING"]);
  const { faults } = await checkFile(made.configFile, {}, { asData: true });
  assert.match(faults[0]?.message ?? "", /the plugin acme is not in pipeline\.lock/);
  assert.equal(made.imported(), 0);
});

test("changed code in a folder node_modules of a package is refused, and does not run", async (t) => {
  const made = project(t);
  const bundled = "node_modules/acme/node_modules/bundled/index.js";
  writePackage(made, "node_modules/acme", {
    "sluice-plugin.json": JSON.stringify({ ...packed, plugins: { ".": manifest } }),
    "index.js": `import "bundled";\n${code}`,
    "node_modules/bundled/package.json": '{ "name": "bundled", "exports": "./index.js" }',
    "node_modules/bundled/index.js": "",
  });
  const installed = packageIn(join(made.folder, "node_modules/acme"));
  assert(installed !== undefined);
  writeLock(made.configFile, new Map([["acme", lockLine(installed, manifest)]]));
  writeFileSync(join(made.folder, bundled), `globalThis.${imports} = 100;`);
  assert.deepEqual(await made.codes("acme"), ["SLUICE_LOCK_DIFFERS"]);
  assert.equal(made.imported(), 0);
  writeFileSync(join(made.folder, bundled), "");
  assert.deepEqual(await made.codes("acme"), []);
  assert.equal(made.imported(), 1);
});

test("a locked package with a link out of its folder is refused", async (t) => {
  const made = project(t);
  writePackage(made, "node_modules/acme");
  const installed = packageIn(join(made.folder, "node_modules/acme"));
  assert(installed !== undefined);
  writeLock(made.configFile, new Map([["acme", lockLine(installed, manifest)]]));
  link(made, "node_modules/acme/node_modules/other", ".");
  assert.deepEqual(await made.codes("acme"), ["SLUICE_LOCK_DIFFERS"]);
  const { faults } = await checkFile(made.configFile, {});
  assert.match(
    faults[0]?.message ?? "",
    /^acme cannot be compared with pipeline\.lock: node_modules\/other is a link that leads out of/,
  );
  assert.equal(made.imported(), 0);
});
