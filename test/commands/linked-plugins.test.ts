/** Plugins in node_modules that are links, which are local code, and packages that are installed. */
import assert from "node:assert/strict";
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test, type TestContext } from "node:test";
import { check } from "../../src/commands/check.ts";
import { checkFile } from "../../src/pipeline/load/check-file.ts";
import { commandLine, type CommandLine } from "./command-line.ts";

const imports = "sluiceTestImports";

const manifest = {
  kind: "step",
  name: "acme",
  description: "A test.",
  options: {
    type: "object",
    properties: { coded: { type: "integer" } },
    additionalProperties: false,
  },
};
const code = `globalThis.${imports} = (globalThis.${imports} ?? 0) + 1;
export default { ...${JSON.stringify(manifest)}, start: () => ({}) };`;

interface Project extends CommandLine {
  codes(source: string): Promise<string[]>;
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

function writePackage(
  { folder }: CommandLine,
  place: string,
  files: Readonly<Record<string, string>> = {},
): void {
  const all = {
    "package.json":
      '{ "name": "acme", "version": "1.0.0", "type": "module", "exports": "./index.js" }',
    "index.js": code,
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
  assert.equal(heading, "\nLocal code under the name of a package:");
  assert.match(line, /^ {2}acme: acme is a link to .*packages\/acme\/index\.js$/);
  const { linked } = await made.json(check);
  assert.deepEqual(linked, [{ plugin: "acme", package: "acme", file }]);
});

test("the schema of the editor has the options in the code of a linked package", async (t) => {
  const made = linkedProject(t);
  writePipeline(made, "acme");
  const schema = join(made.folder, "schema.json");
  assert.equal((await made.run(check, "--write-schema", schema)).code, 0);
  assert.match(readFileSync(schema, "utf8"), /"coded"/);
});

test("check --strict refuses a linked package, but not a path", async (t) => {
  const made = linkedProject(t);
  writePipeline(made, "acme");
  const strict = async (): Promise<string> => (await made.run(check, "--strict")).out.join("\n");
  assert.match(await strict(), /:2:12 {2}SLUICE_STRICT_LINKED {2}the plugin "acme" is local code/);
  writePipeline(made, "./packages/acme");
  assert.doesNotMatch(await strict(), /LINKED/);
});

test("a link to another node_modules folder is a package, as pnpm installs it", async (t) => {
  const made = project(t);
  writePackage(made, "node_modules/.pnpm/acme@1.0.0/node_modules/acme");
  link(made, "node_modules/acme", "node_modules/.pnpm/acme@1.0.0/node_modules/acme");
  assert.deepEqual(await made.codes("acme"), []);
  assert.equal(made.imported(), 1);
  const { startable } = await checkFile(made.configFile, {});
  assert.equal(startable?.origins.get("acme")?.from, "package");
});
