/** `sluice plugin`: from a new package to a plugin in pipeline.yaml, and manifests that are read as data. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { check } from "../../src/commands/check.ts";
import { plugin } from "../../src/commands/plugin/plugin.ts";
import { checkFile } from "../../src/pipeline/load/check-file.ts";
import { temporaryFolder } from "../store/folder.ts";
import { commandLine, type CommandLine } from "./command-line.ts";

const root = join(import.meta.dirname, "../..");

/** Makes `import "sluice-gateway/…"` work in a folder without a registry. */
function linkPackage(folder: string): void {
  mkdirSync(join(folder, "node_modules"), { recursive: true });
  symlinkSync(root, join(folder, "node_modules/sluice-gateway"), "dir");
}

async function newPackage(t: TestContext, kind: string): Promise<string> {
  const folder = join(temporaryFolder(t), "package");
  const made = await commandLine(t).run(
    plugin,
    "new",
    `acme-${kind}`,
    "--kind",
    kind,
    "--dir",
    folder,
  );
  assert.deepEqual([made.code, made.err], [0, []]);
  linkPackage(folder);
  return folder;
}

for (const kind of ["step", "surface", "tools", "service"]) {
  test(`a new package with a ${kind} passes its own tests and the contract suite`, async (t) => {
    const folder = await newPackage(t, kind);
    const { NODE_TEST_CONTEXT: _, ...env } = process.env;
    const options = { cwd: folder, env };
    const { stdout } = await promisify(execFile)(
      process.execPath,
      ["--test", "--test-reporter=tap"],
      options,
    );
    assert.match(stdout, /^# pass 1$/m);
    const judged = await commandLine(t).run(plugin, "test", folder);
    assert.equal(judged.code, 0, judged.out.join("\n"));
    await promisify(execFile)(join(root, "node_modules/.bin/oxlint"), ["--deny-warnings"], options);
  });
}

test("new needs a known kind, a name in kebab case and an empty folder", async (t) => {
  const { run, folder } = commandLine(t);
  const dir = join(folder, "used");
  mkdirSync(dir);
  writeFileSync(join(dir, "mine.txt"), "");
  await assert.rejects(run(plugin, "new", "x", "--kind", "stepp"), /did you mean "step"/);
  await assert.rejects(run(plugin, "new", "x"), /--kind, expected one of step, surface, tools/);
  await assert.rejects(run(plugin, "new", "X y", "--kind", "step"), /kebab case/);
  await assert.rejects(
    run(plugin, "new", "@acme/meter", "--kind", "step"),
    /ships with Sluice has the name "meter"/,
  );
  const { code, err } = await run(plugin, "new", "x", "--kind", "step", "--dir", dir);
  assert.deepEqual([code, /not empty/.test(err.join())], [1, true]);
});

test("test reports a broken rule and exits with 1", async (t) => {
  const folder = await newPackage(t, "step");
  const file = join(folder, "index.ts");
  writeFileSync(file, readFileSync(file, "utf8").replace(/^ {2}contract: .*\n/m, ""));
  const { code, out } = await commandLine(t).run(plugin, "test", folder);
  assert.equal(code, 1);
  assert.match(out.join("\n"), /FAIL {2}manifest: `contract` is missing/);
  assert.match(out.at(-1) ?? "", /other rules were not checked/);
  const packed = await commandLine(t).run(plugin, "pack", folder);
  assert.deepEqual([packed.code, existsSync(join(folder, "dist"))], [1, false]);
  assert.match(packed.err.at(-1) ?? "", /nothing was packed, because the package breaks/);
});

const pipeline = `# The gateway of this test.
version: 1
plugins: {} # plugins of others
lists:
  edge: # in this order
    - request-id # first
routes:
  # The only route.
  - { path: /x, run: [{ use: edge }], to: front-page }
`;

/** Packs a new step and adds it. */
async function added(t: TestContext): Promise<CommandLine & { readonly tarball: string }> {
  const folder = await newPackage(t, "step");
  const line = commandLine(t);
  const packed = await line.json(plugin, "pack", folder);
  const tarball = String(packed["tarball"]);
  writeFileSync(line.configFile, pipeline);
  const { code, out, err } = await line.run(plugin, "add", tarball, "--list", "edge");
  assert.deepEqual([code, err], [0, []]);
  assert.match(out.join("\n"), /acme-step \(step\) gets from the gateway:\n {2}services +none/);
  linkPackage(line.folder);
  return { ...line, tarball };
}

test("add installs a tarball, writes its lines and keeps all others, and the gateway accepts it", async (t) => {
  const { configFile, folder, run } = await added(t);
  const text = readFileSync(configFile, "utf8");
  const expected = pipeline
    .replace("plugins: {} #", 'plugins: { acme-step: "acme-step" } #')
    .replace("- request-id # first\n", "- request-id # first\n    - acme-step\n");
  assert.equal(text, expected);
  const lock = readFileSync(join(folder, "pipeline.lock"), "utf8");
  assert.match(
    lock,
    /^acme-step: \{ version: 0\.1\.0, integrity: sha512-\S+, contract: \^1\.\d+, grants: /m,
  );
  assert.deepEqual((await checkFile(configFile, {})).faults, []);
  assert.equal((await run(check)).code, 0);
});

test("add refuses a folder, which npm links: it is local code that no lock can describe", async (t) => {
  const folder = await newPackage(t, "step");
  const { configFile, run, folder: home } = commandLine(t);
  const before = readFileSync(configFile, "utf8");
  for (const spec of [folder, `file:${folder}`, pathToFileURL(folder).href]) {
    const { code, err } = await run(plugin, "add", spec);
    assert.equal(code, 1);
    assert.match(err.join("\n"), /nothing was installed: \S+\/package is a folder, so it is local/);
  }
  const missing = await run(plugin, "add", "missing-1.0.0.tgz");
  assert.match(
    missing.err.join("\n"),
    /nothing was installed: \S+missing-1\.0\.0\.tgz does not exist/,
  );
  assert.equal(existsSync(join(home, "node_modules")), false);
  assert.equal(readFileSync(configFile, "utf8"), before);
  assert.equal(existsSync(join(home, "pipeline.lock")), false);
});

test("adding again changes nothing, and adds what an option asks for", async (t) => {
  const { configFile, run, tarball } = await added(t);
  const text = readFileSync(configFile, "utf8");
  const again = await run(plugin, "add", tarball, "--list", "edge");
  assert.deepEqual([again.code, readFileSync(configFile, "utf8")], [0, text]);
  writeFileSync(configFile, text.replace("    - acme-step\n", ""));
  const unused = await run(plugin, "add", tarball);
  assert.match(
    unused.out.join("\n"),
    /^To use acme-step, write its name into a list .* --list LIST/m,
  );
  const placed = await run(plugin, "add", tarball, "--list", "edge");
  assert.deepEqual([placed.code, readFileSync(configFile, "utf8")], [0, text]);
  assert.doesNotMatch(placed.out.join("\n"), /To use/);
  const wrong = await run(plugin, "add", tarball, "--list", "missing");
  assert.equal(wrong.code, 1);
  assert.match(
    wrong.err.join("\n"),
    /nothing was installed: \S+ has no list "missing"; its lists are edge/,
  );
  const ignored = await run(plugin, "add", tarball, "--path", "/x");
  assert.deepEqual(ignored.err, [
    "plugin add: --path has no effect, because the package has no surface.",
  ]);
  await assert.rejects(run(plugin, "add", tarball, "--path", "x"), /must begin with \/, got "x"/);
});

test("add changes nothing in a file that names another plugin, or that is not valid", async (t) => {
  const { configFile, run, tarball } = await added(t);
  const text = readFileSync(configFile, "utf8");
  const refused = async (changed: string, problem: RegExp): Promise<void> => {
    writeFileSync(configFile, changed);
    const { code, err } = await run(plugin, "add", tarball, "--list", "edge");
    assert.deepEqual([code, readFileSync(configFile, "utf8")], [1, changed]);
    assert.match(err.join("\n"), problem);
  };
  await refused(
    text.replace('"acme-step"', "./mine.ts"),
    /installed but not added: .*plugin acme-step is \.\/mine\.ts; remove it under `plugins:` first/,
  );
  await refused(`${text}lists: {}\n`, /nothing was installed: .* is not valid YAML: Map keys must/);
  await refused(
    text.replace(/edge:.*\n.*\n.*\n/, "edge: request-id\n"),
    /installed but not added: .*lists\.edge cannot be extended as it is written; add `- acme-step`/,
  );
});

test("add says why npm failed, and leaves no file in the folder", async (t) => {
  const { configFile, folder, run } = commandLine(t);
  const before = readFileSync(configFile, "utf8");
  // Nothing listens on this port.
  const settings = ["registry=http://127.0.0.1:9/", "fetch-retries=0", `cache=${folder}/cache`];
  writeFileSync(join(folder, ".npmrc"), settings.join("\n"));
  const { code, err } = await run(plugin, "add", "acme-missing");
  assert.equal(code, 1);
  assert.match(
    err.join("\n"),
    /^plugin: nothing was installed: npm install acme-missing failed:\n/,
  );
  assert.match(err.join("\n"), /^ {2}code ECONNREFUSED$/m);
  assert.doesNotMatch(err.join("\n"), /npm warn|^ +at /m);
  assert.equal(readFileSync(configFile, "utf8"), before);
  for (const name of ["package.json", "pipeline.lock", "node_modules"]) {
    assert.equal(existsSync(join(folder, name)), false, name);
  }
});

test("add refuses a plugin with a taken name, and one path for several surfaces", async (t) => {
  const { configFile, folder, run } = commandLine(t);
  const before = readFileSync(configFile, "utf8");
  const source = join(folder, "source");
  mkdirSync(source);
  const write = (name: string, value: object): void =>
    writeFileSync(join(source, name), JSON.stringify(value));
  const add = async (...names: readonly string[]): Promise<string> => {
    const manifest = { kind: "surface", description: "A test." };
    const plugins = Object.fromEntries(names.map((name) => [`./${name}`, { ...manifest, name }]));
    write("package.json", { name: "acme-pages", version: "1.0.0" });
    write("sluice-plugin.json", { format: 1, package: "acme-pages", version: "1.0.0", plugins });
    await promisify(execFile)("npm", ["pack", source, "--ignore-scripts"], { cwd: folder });
    const { code, err } = await run(
      plugin,
      "add",
      join(folder, "acme-pages-1.0.0.tgz"),
      "--path",
      "/x",
    );
    assert.deepEqual([code, readFileSync(configFile, "utf8")], [1, before]);
    return err.join("\n");
  };
  assert.match(await add("models"), /a plugin that ships with Sluice has the name models, too/);
  assert.match(await add("one", "two"), /--path adds a route for one surface, .* has one, two$/);
});

test("add names the required options of a service", async (t) => {
  const folder = await newPackage(t, "service");
  const line = commandLine(t);
  writeFileSync(line.configFile, pipeline);
  const tarball = String((await line.json(plugin, "pack", folder))["tarball"]);
  const { code, out } = await line.run(plugin, "add", tarball);
  assert.equal(code, 0);
  assert.match(
    out.join("\n"),
    /^To use acme-service, add a section `acme-service:` with its options .*\(required: url\)\.$/m,
  );
});

test("add names the required options that the file does not set, for every kind", async (t) => {
  const { configFile, folder, run, json } = commandLine(t);
  const source = join(folder, "source");
  mkdirSync(source);
  const write = (name: string, value: object): void =>
    writeFileSync(join(source, name), JSON.stringify(value));
  const version = "1.0.0";
  const options = {
    type: "object",
    properties: { url: {}, prefix: {}, seconds: { type: "integer", default: 30 } },
    required: ["url", "prefix", "seconds"],
  };
  const add = async (kind: string, text: string, ...args: readonly string[]): Promise<string> => {
    const data = { kind, name: "acme", description: "A test.", options };
    write("package.json", { name: "acme-any", version });
    const plugins = { ".": data };
    write("sluice-plugin.json", { format: 1, package: "acme-any", version, plugins });
    await promisify(execFile)("npm", ["pack", source, "--ignore-scripts"], { cwd: folder });
    writeFileSync(configFile, text);
    const tarball = join(folder, "acme-any-1.0.0.tgz");
    const { code, out } = await run(plugin, "add", tarball, ...args);
    assert.equal(code, 0);
    const result = await json(plugin, "add", tarball, ...args);
    const [{ missingOptions }] = result["plugins"] as [{ missingOptions: string[] }];
    const remaining = out.join("\n").match(/^To use acme, .*$/m)?.[0] ?? "";
    assert.equal(remaining.includes(`(required: ${missingOptions.join(", ")}).`), remaining !== "");
    return remaining;
  };
  const placed = "To use acme, write its options under its name in pipeline.yaml";
  assert.equal(await add("tools", pipeline), `${placed} (required: url, prefix).`);
  const half = `${pipeline}tools:\n  - acme: { url: x }\n`;
  assert.equal(await add("tools", half), `${placed} (required: prefix).`);
  const all = `${pipeline}tools:\n  - acme: { url: x, prefix: y }\n`;
  assert.equal(await add("tools", all), "");
  assert.equal(await add("step", pipeline, "--list", "edge"), `${placed} (required: url, prefix).`);
  assert.match(await add("step", pipeline), /into a list .* \(required: url, prefix\)\.$/);
  assert.equal(
    await add("surface", pipeline, "--path", "/y"),
    `${placed} (required: url, prefix).`,
  );
  assert.match(await add("surface", pipeline), /at `to:` of .* \(required: url, prefix\)\.$/);
  assert.match(await add("service", pipeline), /a section `acme:` .* \(required: url, prefix\)\.$/);
  const section = `${pipeline}acme: { url: x }\n`;
  assert.equal(await add("service", section), `${placed} (required: prefix).`);
});

test("pack refuses bundled packages, and a folder without package.json", async (t) => {
  const folder = await newPackage(t, "step");
  const manifest = join(folder, "package.json");
  const text = readFileSync(manifest, "utf8");
  for (const bundled of [["dep"], true]) {
    const value = { ...JSON.parse(text), bundleDependencies: bundled };
    writeFileSync(manifest, JSON.stringify(value));
    const { code, err } = await commandLine(t).run(plugin, "pack", folder);
    assert.equal(code, 1);
    assert.match(err.join("\n"), /`bundleDependencies`, which sluice plugin pack does not support/);
  }
  const missing = await commandLine(t).run(plugin, "test", join(folder, "missing"));
  assert.equal(missing.code, 1);
  assert.match(missing.err.join("\n"), /missing\/package\.json does not exist; run this in/);
});

test("a package that was not installed yet is refused with the remedy", async (t) => {
  const { json, run, folder } = commandLine(t);
  const dir = join(folder, "package");
  await json(plugin, "new", "acme-new", "--kind", "step", "--dir", dir);
  const { code, err } = await run(plugin, "test", dir);
  assert.equal(code, 1);
  assert.match(err.join("\n"), /Cannot find package 'sluice-gateway' .*; run npm install first$/);
});

test("a changed file, version or line is refused before the code runs", async (t) => {
  const { configFile, folder, run } = await added(t);
  const module = join(folder, "node_modules/acme-step/index.js");
  const code = readFileSync(module, "utf8");
  writeFileSync(module, `globalThis.hasRun = true;\n${code}`);
  const { faults } = await checkFile(configFile, {});
  assert.deepEqual(
    faults.map((fault) => fault.code),
    ["SLUICE_LOCK_DIFFERS"],
  );
  assert.match(faults[0]?.message ?? "", /files that differ/);
  assert.equal("hasRun" in globalThis, false);
  writeFileSync(module, code);
  assert.deepEqual((await checkFile(configFile, {})).faults, []);

  const lock = join(folder, "pipeline.lock");
  const accepted = readFileSync(lock, "utf8");
  writeFileSync(lock, accepted.replace("body: none", "body: write"));
  assert.match((await run(check)).out.join("\n"), /SLUICE_LOCK_DIFFERS.*grants that differ/);
  writeFileSync(lock, "# empty\n");
  assert.match((await run(check)).out.join("\n"), /SLUICE_LOCK_MISSING/);
  writeFileSync(lock, "- x\n");
  assert.match((await run(check)).out.join("\n"), /SLUICE_LOCK_INVALID/);
});

/** Writes an installed package whose module throws when it is imported. */
function throwingPackage(folder: string, manifest: object): void {
  const target = join(folder, "node_modules/acme-bomb");
  mkdirSync(target, { recursive: true });
  const write = (name: string, value: object): void =>
    writeFileSync(join(target, name), JSON.stringify(value));
  write("package.json", {
    name: "acme-bomb",
    version: "2.0.0",
    type: "module",
    exports: "./index.js",
  });
  writeFileSync(join(target, "index.js"), 'throw new Error("the code of the plugin has run");');
  write("sluice-plugin.json", {
    format: 1,
    package: "acme-bomb",
    version: "2.0.0",
    plugins: { ".": manifest },
  });
}

const manifest = {
  kind: "step",
  name: "acme-bomb",
  contract: "^1",
  description: "Throws.",
  options: {
    type: "object",
    properties: { fuse: { type: "integer", minimum: 1 } },
    additionalProperties: false,
  },
};

test("check and the schema of the editor run no code of an installed plugin", async (t) => {
  const { configFile, folder, run } = commandLine(t);
  throwingPackage(folder, manifest);
  const file = (fuse: unknown): string =>
    `version: 1\nplugins: { acme-bomb: acme-bomb }\nroutes:\n  - { path: /x, run: [{ acme-bomb: { fuse: ${String(fuse)} } }], to: front-page }\n`;
  writeFileSync(configFile, file(1));
  const schema = join(folder, "schema.json");
  const checked = await run(check, "--write-schema", schema);
  assert.equal(checked.code, 0, checked.out.join("\n"));
  assert.match(readFileSync(schema, "utf8"), /"fuse"/);
  writeFileSync(configFile, file(0));
  assert.match((await run(check)).out.join("\n"), /SLUICE_VALUE_RANGE.*fuse/);
  const { faults } = await checkFile(configFile, {});
  assert.match(faults.map(({ message }) => message).join(), /the code of the plugin has run/);
});

test("the schema of the editor has the options of installed plugins that the file does not name", async (t) => {
  const { configFile, folder, run } = commandLine(t);
  throwingPackage(folder, manifest);
  writeFileSync(configFile, "version: 1\nroutes:\n  - { path: /x, to: front-page }\n");
  const schema = join(folder, "schema.json");
  assert.equal((await run(check, "--write-schema", schema)).code, 0);
  assert.match(readFileSync(schema, "utf8"), /"fuse"/);
});

test("a file that differs from the code, or that cannot be read, is a fault", async (t) => {
  const { configFile, folder } = commandLine(t);
  throwingPackage(folder, manifest);
  const module = join(folder, "node_modules/acme-bomb/index.js");
  writeFileSync(
    module,
    'export default { kind: "step", name: "acme-bomb", contract: "^1", description: "Other.", start: () => ({}) };',
  );
  writeFileSync(
    configFile,
    "version: 1\nplugins: { acme-bomb: acme-bomb }\nroutes:\n  - { path: /x, run: [acme-bomb], to: front-page }\n",
  );
  const codes = async (): Promise<string[]> =>
    (await checkFile(configFile, {})).faults.map(({ code }) => code);
  assert.deepEqual(await codes(), ["SLUICE_PLUGIN_FILE"]);
  writeFileSync(join(folder, "node_modules/acme-bomb/sluice-plugin.json"), '{ "format": 9 }');
  assert.deepEqual(await codes(), ["SLUICE_PLUGIN_FILE"]);
});
