/** `sluice plugin`: from a new package to a plugin in pipeline.yaml with its grants. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { stripTypeScriptTypes } from "node:module";
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

/** Removes the types of the modules, as the compiler does for a user. */
function build(folder: string): void {
  mkdirSync(join(folder, "dist"), { recursive: true });
  for (const name of ["index", "index.example"]) {
    const code = stripTypeScriptTypes(readFileSync(join(folder, `${name}.ts`), "utf8"));
    writeFileSync(join(folder, "dist", `${name}.js`), code);
  }
}

/**
 * Packs a package in `folder`, as `npm pack` does but in less time. `plugins`: their manifests by the name of their
 * export. Returns the path of the tarball.
 */
async function packed(
  folder: string,
  name: string,
  plugins: Readonly<Record<string, object>>,
): Promise<string> {
  // The folder in a tarball of npm.
  const source = join(folder, "package");
  mkdirSync(source, { recursive: true });
  const files = Object.keys(plugins).map((entry, at) => [entry, `./${at}.js`] as const);
  const manifest = { name, version: "1.0.0", type: "module", exports: Object.fromEntries(files) };
  writeFileSync(join(source, "package.json"), JSON.stringify(manifest));
  for (const [entry, file] of files) {
    const code = `export default { ...${JSON.stringify(plugins[entry])}, start: () => ({}) };`;
    writeFileSync(join(source, file), code);
  }
  const tarball = join(folder, `${name}-1.0.0.tgz`);
  await promisify(execFile)("tar", ["-czf", tarball, "-C", folder, "package"]);
  rmSync(source, { recursive: true });
  return tarball;
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

async function added(t: TestContext): Promise<CommandLine & { readonly tarball: string }> {
  const line = commandLine(t);
  const about = { kind: "step", name: "acme-step", contract: "^1", description: "A test." };
  const permissions = { body: "none" };
  const tarball = await packed(line.folder, "acme-step", { ".": { ...about, permissions } });
  writeFileSync(line.configFile, pipeline);
  const { code, out, err } = await line.run(plugin, "add", tarball, "--list", "edge");
  assert.deepEqual([code, err], [0, []]);
  assert.match(out.join("\n"), /acme-step \(step\) gets from the gateway:\n {2}services +none/);
  return { ...line, tarball };
}

test("add installs a tarball, and changes only what is asked for", async (t) => {
  const { configFile, run, tarball } = await added(t);
  const text = readFileSync(configFile, "utf8");

  await t.test(
    "add installs a tarball, writes its lines and keeps all others, and the gateway accepts it",
    async () => {
      const expected = pipeline
        .replace("plugins: {} #", 'plugins: { acme-step: { from: "acme-step", grants: {} } } #')
        .replace("- request-id # first\n", "- request-id # first\n    - acme-step\n");
      assert.equal(text, expected);
      assert.deepEqual((await checkFile(configFile, {})).faults, []);
      assert.equal((await run(check)).code, 0);
    },
  );

  await t.test("adding again changes nothing, and adds what an option asks for", async () => {
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

  await t.test(
    "add changes nothing in a file that names another plugin, or that is not valid",
    async () => {
      const refused = async (changed: string, problem: RegExp): Promise<void> => {
        writeFileSync(configFile, changed);
        const { code, err } = await run(plugin, "add", tarball, "--list", "edge");
        assert.deepEqual([code, readFileSync(configFile, "utf8")], [1, changed]);
        assert.match(err.join("\n"), problem);
      };
      await refused(
        text.replace('from: "acme-step"', "from: ./mine.ts"),
        /installed but not added: .*plugin acme-step is \.\/mine\.ts; remove it under `plugins:` first/,
      );
      await refused(
        `${text}lists: {}\n`,
        /nothing was installed: .* is not valid YAML: Map keys must/,
      );
      await refused(
        text.replace(/edge:.*\n.*\n.*\n/, "edge: request-id\n"),
        /installed but not added: .*lists\.edge cannot be extended as it is written; add `- acme-step`/,
      );
    },
  );
});

test("add refuses a folder, which npm links: it is local code", async (t) => {
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
  for (const name of ["package.json", "node_modules"]) {
    assert.equal(existsSync(join(folder, name)), false, name);
  }
});

test("add refuses a plugin with a taken name, and one path for several surfaces", async (t) => {
  const add = async (...names: readonly string[]): Promise<string> => {
    const { configFile, folder, run } = commandLine(t);
    const before = readFileSync(configFile, "utf8");
    const plugins = names.map((name) => [
      `./${name}`,
      { kind: "surface", name, description: "A test." },
    ]);
    const tarball = await packed(folder, "acme-pages", Object.fromEntries(plugins));
    const { code, err } = await run(plugin, "add", tarball, "--path", "/x");
    assert.deepEqual([code, readFileSync(configFile, "utf8")], [1, before]);
    return err.join("\n");
  };
  assert.match(await add("models"), /a plugin that ships with Sluice has the name models, too/);
  assert.match(await add("one", "two"), /--path adds a route for one surface, .* has one, two$/);
});

test("add names the required options that the file does not set, for every kind", async (t) => {
  const options = {
    type: "object",
    properties: { url: {}, prefix: {}, seconds: { type: "integer", default: 30 } },
    required: ["url", "prefix", "seconds"],
    additionalProperties: false,
  };
  const add = async (kind: string, text: string, ...args: readonly string[]): Promise<string> => {
    const { configFile, folder, run, json } = commandLine(t);
    const about = { kind, name: "acme", description: "A test.", options };
    const tarball = await packed(folder, "acme-any", { ".": about });
    writeFileSync(configFile, text);
    const { code, out, err } = await run(plugin, "add", tarball, ...args);
    assert.equal(code, 0, err.join("\n"));
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

test("test refuses a folder without package.json, and a package that was not built", async (t) => {
  const folder = await newPackage(t, "step");
  const { run } = commandLine(t);
  const missing = await run(plugin, "test", join(folder, "missing"));
  assert.equal(missing.code, 1);
  assert.match(missing.err.join("\n"), /missing\/package\.json does not exist; run this in/);
  const { code, err } = await run(plugin, "test", folder);
  assert.equal(code, 1);
  assert.match(err.join("\n"), /dist\/index\.js does not exist; build the package first/);
});

test("a package that was not installed yet is refused with the remedy", async (t) => {
  const { json, run, folder } = commandLine(t);
  const dir = join(folder, "package");
  await json(plugin, "new", "acme-new", "--kind", "step", "--dir", dir);
  build(dir);
  const { code, err } = await run(plugin, "test", dir);
  assert.equal(code, 1);
  assert.match(err.join("\n"), /Cannot find package 'sluice-gateway' .*; run npm install first$/);
});

test("a plugin that asks for more than its grants is refused, and the fault says what is missing", async (t) => {
  const { configFile, folder, run } = commandLine(t);
  const about = {
    kind: "step",
    name: "acme",
    description: "A test.",
    uses: ["metering"],
    permissions: {
      hosts: ["acme.test:443"],
      env: ["ACME_KEY"],
      body: "read",
      deployment: ["seal"],
    },
  };
  const tarball = await packed(folder, "acme", { "./acme": about });
  writeFileSync(configFile, pipeline);
  assert.equal((await run(plugin, "add", tarball, "--list", "edge")).code, 0);
  const text = readFileSync(configFile, "utf8");
  const grants =
    '{"services":["metering"],"hosts":["acme.test:443"],"env":["ACME_KEY"],"deployment":["seal"],"body":"read"}';
  assert(text.includes(`{ acme: { from: "acme/acme", grants: ${grants} } }`), text);
  const messages = async (): Promise<string[]> =>
    (await checkFile(configFile, {})).faults.map(({ code, message }) => `${code}: ${message}`);
  const refusal = 'SLUICE_PLUGIN_GRANTS: the plugin "acme" asks for more than its grants';
  assert.deepEqual(await messages(), []);
  writeFileSync(configFile, text.replace('["ACME_KEY"]', "[]").replace('"read"', '"none"'));
  assert.deepEqual(await messages(), [`${refusal}: env: ACME_KEY, body: read`]);
  const again = await run(plugin, "add", tarball);
  assert.equal(again.code, 1);
  assert.match(
    again.err.join("\n"),
    /not added: .* more than its grants: env: ACME_KEY, body: read;/,
  );
  writeFileSync(configFile, text.replace('["ACME_KEY"]', "5"));
  const wrong = await run(plugin, "add", tarball);
  assert.equal(wrong.code, 1);
  assert.match(wrong.err.join("\n"), /not added: grants\.env of the plugin acme must be a list$/);
  writeFileSync(configFile, text.replace(grants, "{}"));
  assert.deepEqual(await messages(), [
    `${refusal}: services: metering, hosts: acme.test:443, env: ACME_KEY, body: read, deployment: seal`,
  ]);
  // More than it asks for is not a fault, and without grants it may have what it asks for.
  writeFileSync(
    configFile,
    text.replace('["acme.test:443"]', '["*"]').replace('"read"', '"write"'),
  );
  assert.deepEqual(await messages(), []);
  writeFileSync(configFile, text.replace(`{ from: "acme/acme", grants: ${grants} }`, "acme/acme"));
  assert.deepEqual(await messages(), []);
});
