/** `sluice check`: its formats, and plugins in node_modules that are links, which are local code, or packages. */
import assert from "node:assert/strict";
import { readFileSync, writeFileSync, mkdirSync, symlinkSync } from "node:fs";
import { join, dirname } from "node:path";
import { test, type TestContext } from "node:test";
import { check } from "../../src/commands/check.ts";
import { sluiceErrors } from "../../src/base/errors.ts";
import { UsageError } from "../../src/commands/command.ts";
import { commandLine, type CommandLine } from "./command-line.ts";
import { checkFile } from "../../src/pipeline/load/check-file.ts";

function checking(t: TestContext, pipeline: string): CommandLine {
  const line = commandLine(t);
  writeFileSync(line.configFile, pipeline);
  return line;
}

const validFile = `version: 1
upstreams: { web: { urls: "http://127.0.0.1:1" } }
unmatched: [request-id]
routes:
  - path: /web/*
    run: [request-id, { validate: { headers: { type: object } }, mode: shadow, when: { methods: [GET] } }]
    to: { forward: { upstream: web } }
`;

const broken = `version: 1
server: { prot: 1 }
routes:
  - { path: web, to: forwrad }
`;

test("a valid file prints the order of every route and exits with 0", async (t) => {
  const { run, configFile } = checking(t, validFile);
  const { code, out, err } = await run(check);
  assert.equal(code, 0);
  assert.deepEqual(err, []);
  assert.deepEqual(out, [
    `${configFile} has no faults.\n`,
    "/web/*",
    "  request-id > validate (shadow, when) > forward",
    "(unmatched)",
    "  request-id > 404, 405",
  ]);
});

test("a broken file prints every fault with its position, and exits with 1", async (t) => {
  const { run, configFile } = checking(t, broken);
  const { code, out, err } = await run(check);
  assert.equal(code, 1);
  assert.deepEqual(
    out.map((fault) => fault.split("  ").slice(0, 2)),
    [
      [`${configFile}:2:11`, "SLUICE_KEY_UNKNOWN"],
      [`${configFile}:4:13`, "SLUICE_ROUTE_PATH"],
      [`${configFile}:4:22`, "SLUICE_PLUGIN_UNKNOWN"],
    ],
  );
  assert.deepEqual(err, [`${configFile}: 3 faults`]);
});

test("--json prints one document: the faults, or the order", async (t) => {
  const bad = checking(t, broken);
  const { code, out, err } = await bad.run(check, "--json");
  assert.equal(code, 1);
  assert.deepEqual(err, []);
  assert.equal(out.length, 1);
  const { ok, faults } = JSON.parse(out[0] ?? "") as { ok: boolean; faults: object[] };
  assert.equal(ok, false);
  assert.equal(faults.length, 3);
  assert.deepEqual(faults[1], {
    code: "SLUICE_ROUTE_PATH",
    message: 'invalid path "web": it does not start with "/"',
    remedy: sluiceErrors.SLUICE_ROUTE_PATH,
    file: bad.configFile,
    line: 4,
    col: 13,
  });
  assert.deepEqual(Object.keys(faults[2] ?? {}).includes("didYouMean"), true);
  const good = checking(t, validFile);
  assert.deepEqual(await good.json(check), {
    ok: true,
    file: good.configFile,
    faults: [],
    linked: [],
    routes: [
      { route: "/web/*", run: ["request-id", "validate (shadow, when)"], to: "forward" },
      { route: "(unmatched)", run: ["request-id"], to: "404, 405" },
    ],
  });
});

test("faults that a plugin reports are found by starting it only for the check", async (t) => {
  const text = validFile.replace("{ upstream: web }", "{ upstream: wbe }");
  const { code, out } = await checking(t, text).run(check);
  assert.equal(code, 1);
  assert.match(out.join("\n"), /:7:32 .*wbe/);
});

test("--write-schema writes a schema that knows the file's own plugins", async (t) => {
  const line = commandLine(t);
  const plugin = `export default {
    kind: "surface", name: "own", description: "Our own.", start: () => ({ answer() {} }),
    options: { type: "object", additionalProperties: false, properties: { colour: { type: "string" } } },
  };`;
  writeFileSync(join(line.folder, "own.js"), plugin);
  writeFileSync(
    line.configFile,
    "version: 1\nplugins: { own: ./own.js }\nroutes: [{ path: /, to: own }]\n",
  );
  const target = join(line.folder, "schema.json");
  const { code } = await line.run(check, "--write-schema", target);
  assert.equal(code, 0);
  const text = readFileSync(target, "utf8");
  assert.match(text, /"colour"/);
  assert.match(text, /"request-id"/);
});

test("unexpected arguments are refused", async (t) => {
  const { run } = checking(t, validFile);
  await assert.rejects(run(check, "pipeline.yaml"), UsageError);
});

test("--format github prints one annotation per fault, with its characters escaped", async (t) => {
  const { run, configFile } = checking(t, broken);
  const { code, out } = await run(check, "--format", "github");
  assert.equal(code, 1);
  const [first = ""] = out;
  const file = configFile.replaceAll(":", "%3A").replaceAll(",", "%2C");
  assert.ok(
    first.startsWith(`::error file=${file},line=2,col=11,title=SLUICE_KEY_UNKNOWN::`),
    first,
  );
  assert.ok(out.every((line) => line.startsWith("::error ") && !line.includes("\n")));
});

test("--format sarif prints a log of SARIF 2.1.0", async (t) => {
  const { run } = checking(t, broken);
  const { code, out } = await run(check, "--format", "sarif");
  assert.equal(code, 1);
  assert.equal(out.length, 1);
  // The command prints this document.
  const log = JSON.parse(out[0] ?? "") as {
    version: string;
    runs: {
      tool: { driver: { rules: { id: string }[] } };
      results: { ruleId: string; ruleIndex: number; locations: object[] }[];
    }[];
  };
  assert.equal(log.version, "2.1.0");
  const { tool, results } = log.runs[0]!;
  assert.ok(results.length > 1);
  for (const { ruleId, ruleIndex } of results) {
    assert.equal(tool.driver.rules[ruleIndex]?.id, ruleId);
  }
  assert.deepEqual(
    Object.values(results[0]!.locations[0]!).map(({ region }: { region: object }) => region),
    [{ startLine: 2, startColumn: 11 }],
  );
});

test("a wrong format and two formats are usage errors", async (t) => {
  const { run } = checking(t, validFile);
  await assert.rejects(run(check, "--format", "jsno"), {
    message:
      '--format: unknown value "jsno"; did you mean "json"? (expected one of text, json, sarif, github)',
  });
  await assert.rejects(run(check, "--format", "text", "--json"), UsageError);
});

const production = `version: 1
environment: prod
secret: 0123456789abcdef0123456789abcdef
server: { host: 0.0.0.0, trustProxy: [10.0.0.0/8] }
admin: { host: 10.0.0.7 }
upstreams: { web: { urls: "https://backend.example" } }
routes:
  - { path: /web/*, run: [], to: { forward: { upstream: web } } }
`;

test("--strict refuses what should not go to production, and nothing else", async (t) => {
  assert.deepEqual((await checking(t, production).run(check, "--strict")).err, []);
  const { run } = checking(t, production.replace("environment: prod", ""));
  assert.equal((await run(check)).code, 0);
  const { code, out } = await run(check, "--strict");
  assert.equal(code, 1);
  assert.match(out.join("\n"), /SLUICE_STRICT_ENVIRONMENT/);
});

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
