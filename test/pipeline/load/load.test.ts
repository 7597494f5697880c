/** Tests of the resolver of plugins, and of the positions in its faults; packages of third parties in a whole gateway. */
import assert from "node:assert/strict";
import { cpSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test, type TestContext } from "node:test";
import type { Config } from "../../../src/config/config.ts";
import { parseConfig } from "../../../src/config/parse-config.ts";
import { loadPlugins, loadShipped, shippedPlugins } from "../../../src/pipeline/load/load.ts";
import type { Plugin } from "../../../src/plugin.ts";
import { startGateway } from "../../../src/gateway/gateway.ts";
import { StartError } from "../../../src/start-error.ts";
import { temporaryFolder } from "../../store/folder.ts";

const root = join(import.meta.dirname, "../../..");

interface Project {
  readonly folder: string;
  readonly configFile: string;
}

/** An operator's project: pipeline.yaml next to node_modules with Sluice and packages of third parties. */
function project(t: TestContext, pipeline: string, packages: readonly string[]): Project {
  const folder = temporaryFolder(t);
  const modules = join(folder, "node_modules");
  mkdirSync(modules);
  symlinkSync(root, join(modules, "sluice-gateway"), "dir");
  for (const name of packages) {
    mkdirSync(dirname(join(modules, name)), { recursive: true });
    cpSync(join(import.meta.dirname, "third-party"), join(modules, name), { recursive: true });
  }
  const configFile = join(folder, "pipeline.yaml");
  writeFileSync(configFile, pipeline);
  return { folder, configFile };
}

function parse(text: string, configFile: string): Config {
  const { config, faults } = parseConfig(text, configFile, {});
  assert.deepEqual(faults, []);
  assert.ok(config !== undefined);
  return config;
}

const stamped = `version: 1
server: { port: 0, drainDelaySeconds: 0 }
admin: { port: 0 }
log: { level: silent }
plugins:
  stamp: sluice-plugin-stamp
  banner: sluice-plugin-stamp/banner
routes:
  - { path: /banner, methods: [GET], run: [request-id, { stamp: { text: "by a third party" } }], to: banner }
  - { path: /closed, methods: [GET], run: [stamp], to: banner }
`;

test("a third-party package runs in a gateway with the same contract as a shipped plugin", async (t) => {
  const { configFile } = project(t, stamped, ["sluice-plugin-stamp"]);
  const gateway = await startGateway({ configFile, env: {}, watch: false });
  t.after(() => gateway.stop());
  const answer = await fetch(`${gateway.url}/banner`, { headers: { "x-request-id": "r1" } });
  assert.equal(answer.status, 200);
  assert.equal(await answer.text(), "stamped by a third party");
  assert.equal(answer.headers.get("x-stamp"), "by a third party");
  assert.equal(answer.headers.get("x-request-id"), "r1");
  const refused = await fetch(`${gateway.url}/closed`);
  assert.equal(refused.status, 404);
  assert.equal(refused.headers.get("x-stamp"), "sealed");
  assert.deepEqual(await refused.json(), { error: "not found", error_code: "GATEWAY_NOT_FOUND" });
});

test("the order of third-party plugins is proved like that of shipped plugins", async (t) => {
  const wrong = stamped.replace("run: [stamp], ", "");
  const { configFile } = project(t, wrong, ["sluice-plugin-stamp"]);
  await assert.rejects(startGateway({ configFile, env: {}, watch: false }), (error) => {
    assert.ok(error instanceof StartError);
    assert.deepEqual(
      error.faults.map(({ code, at }) => [code, at?.line]),
      [["SLUICE_SLOT_MISSING", 10]],
    );
    return true;
  });
});

test("packages, including scoped ones, are resolved from the folder of pipeline.yaml", async (t) => {
  const text = `version: 1
plugins: { stamp: "@acme/stamp", banner: "@acme/stamp/banner" }
routes: [{ path: /, run: [stamp], to: banner }]
`;
  const { configFile } = project(t, text, ["@acme/stamp"]);
  const { plugins, faults } = await loadPlugins(parse(text, configFile));
  assert.deepEqual(faults, []);
  assert.deepEqual(await loadedFor(plugins), ["banner", "stamp"]);
});

/** Returns the names of the plugins that an empty pipeline.yaml does not load, in alphabetical order. */
async function loadedFor(plugins: ReadonlyMap<string, Plugin>): Promise<string[]> {
  const { config } = parseConfig("version: 1\nroutes: []\n", "/pipeline.yaml", {});
  assert.ok(config !== undefined);
  const always = await loadPlugins(config);
  return [...plugins.keys()].filter((name) => !always.plugins.has(name)).toSorted();
}

test("a package that is not installed is a fault that suggests the most similar installed package", async (t) => {
  const text = `version: 1
plugins: { stamp: sluice-plugin-stmap, banner: "@acme/stemp" }
routes: [{ path: /, run: [stamp], to: banner }]
`;
  const { configFile } = project(t, text, ["sluice-plugin-stamp", "@acme/stamp"]);
  const { plugins, faults } = await loadPlugins(parse(text, configFile));
  assert.deepEqual(await loadedFor(plugins), []);
  assert.deepEqual(
    faults.map(({ code, didYouMean }) => [code, didYouMean]),
    [
      ["SLUICE_PLUGIN_NOT_FOUND", "sluice-plugin-stamp"],
      ["SLUICE_PLUGIN_NOT_FOUND", "@acme/stamp"],
    ],
  );
});

test("a Fastify plugin is also resolved from the folder of pipeline.yaml", async (t) => {
  const text = `${stamped}fastify: [{ fastify-seal: { text: pressed } }]\n`;
  const { folder, configFile } = project(t, text, ["sluice-plugin-stamp"]);
  const source = `
    const seal = async (app, { text }) => {
      app.addHook("onRequest", async (request, reply) => void reply.header("x-seal", text));
    };
    seal[Symbol.for("skip-override")] = true;
    module.exports = seal;
  `;
  const home = join(folder, "node_modules", "fastify-seal");
  mkdirSync(home);
  writeFileSync(join(home, "index.js"), source);
  const gateway = await startGateway({ configFile, env: {}, watch: false });
  t.after(() => gateway.stop());
  const answer = await fetch(`${gateway.url}/banner`);
  assert.equal(answer.status, 200);
  assert.equal(answer.headers.get("x-seal"), "pressed");
  assert.equal(answer.headers.get("x-stamp"), "by a third party");
});

test("paths that a package does not export, modules of Node itself and missing folders are not found", async (t) => {
  const text = `version: 1
plugins:
  stamp: sluice-plugin-stamp/internal
  banner: "node:fs"
  a: ./nowhere/a.js
  b: "file://elsewhere/b.js"
routes: [{ path: /, run: [stamp, a], to: banner }, { path: /b, to: b }]
`;
  const { configFile } = project(t, text, ["sluice-plugin-stamp"]);
  const { faults } = await loadPlugins(parse(text, configFile));
  assert.deepEqual(
    faults.map(({ code }) => code),
    Array.from({ length: 4 }, () => "SLUICE_PLUGIN_NOT_FOUND"),
  );
});

test("a plugin may be a file by path, url or folder with an index", async (t) => {
  const { folder, configFile } = project(t, "", []);
  const source = (name: string): string =>
    `export default { kind: "surface", name: "${name}", description: "x", start: () => ({}) };`;
  mkdirSync(join(folder, "c"));
  writeFileSync(join(folder, "a.js"), source("a"));
  writeFileSync(join(folder, "b.mjs"), source("b"));
  writeFileSync(join(folder, "c", "index.mjs"), source("c"));
  const text = `version: 1
plugins: { a: ./a.js, b: "file://${folder}/b.mjs", c: ./c }
routes:
  - { path: /a, to: a }
  - { path: /b, to: b }
  - { path: /c, to: c }
`;
  const { plugins, faults } = await loadPlugins(parse(text, configFile));
  assert.deepEqual(faults, []);
  assert.deepEqual(await loadedFor(plugins), ["a", "b", "c"]);
});

test("only plugins that are used are loaded, each of them once, with the services that they use", async (t) => {
  const text = `version: 1
routes: [{ path: /, run: [request-id, request-id], to: forward }]
`;
  const { configFile } = project(t, text, []);
  const { plugins, faults } = await loadPlugins(parse(text, configFile));
  assert.deepEqual(faults, []);
  assert.deepEqual(await loadedFor(plugins), ["forward", "request-id", "upstreams"]);
});

test("every folder of plugins/ is a valid plugin with that name", async () => {
  const { plugins, faults } = await loadShipped();
  assert.deepEqual(faults, []);
  // The gateway itself provides this service.
  const names = [...shippedPlugins().keys(), "upstreams"];
  assert.deepEqual([...plugins.keys()].toSorted(), names.toSorted());
});

for (const [title, files, expected] of [
  [
    "TypeScript",
    { "a.ts": "const a = 1;\nexport default {\n  a: \n" },
    "a.ts:3:6: Expression expected",
  ],
  ["TypeScript that cannot be erased", { "a.ts": "enum X { A }" }, "a.ts:1:1: TypeScript enum"],
  ["JavaScript", { "a.mjs": "\nexport default { a: ; };" }, "a.mjs:2:21: Unexpected token ';'"],
  [
    "what it imports",
    { "a.mjs": 'import "./lib/b.mjs";', "lib/b.mjs": "let a;\nlet a;" },
    "lib/b.mjs:2:5: Identifier 'a' has already been declared",
  ],
  [
    "a name that another module does not export",
    { "a.mjs": 'import { no } from "./b.mjs";', "b.mjs": "" },
    "a.mjs:1:10: The requested module",
  ],
] as const) {
  test(`a syntax error names file, line and column: ${title}`, async (t) => {
    const { folder, configFile } = project(t, "", []);
    mkdirSync(join(folder, "lib"));
    for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
    const [entry = ""] = Object.keys(files);
    const text = `version: 1
plugins: { a: ./${entry} }
routes: [{ path: /, to: a }]
`;
    const { faults } = await loadPlugins(parse(text, configFile));
    assert.equal(faults.length, 1);
    const start = `plugin "a" could not be loaded: ${folder}/${expected}`;
    assert.equal(faults[0]?.message.slice(0, start.length), start);
  });
}
