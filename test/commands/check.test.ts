import assert from "node:assert/strict";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { check } from "../../src/commands/check.ts";
import { sluiceErrors } from "../../src/errors.ts";
import { UsageError } from "../../src/commands/command.ts";
import { commandLine, type CommandLine } from "./command-line.ts";

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
    routes: [
      { route: "/web/*", run: ["request-id", "validate (shadow, when)"], to: "forward" },
      { route: "(unmatched)", run: ["request-id"], to: "404, 405" },
    ],
  });
});

test("faults that a plugin reports are found by starting it only for the check", async (t) => {
  const text = validFile.replace("{ upstream: web }", "{ upstream: wbe }");
  const { run } = checking(t, text);
  const { code, out } = await run(check);
  assert.equal(code, 1);
  assert.match(out.join("\n"), /:7:32 .*wbe/);
});

test("a missing file is a fault", async (t) => {
  const { run, configFile } = commandLine(t);
  rmSync(configFile);
  const { code, out } = await run(check);
  assert.equal(code, 1);
  assert.match(out[0] ?? "", /SLUICE_FILE_MISSING/);
});

test("--write-schema writes a schema that knows the file's own plugins", async (t) => {
  const line = commandLine(t);
  const plugin = `export default {
    kind: "surface", name: "own", description: "Our own.", start: () => ({}),
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
