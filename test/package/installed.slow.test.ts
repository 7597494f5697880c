/** The published package in a user's folder. */
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import { Script } from "node:vm";
import { crc32 } from "node:zlib";
import { Ajv } from "ajv";
import manifest from "../../package.json" with { type: "json" };
import { loadTemplates } from "../../src/commands/init.ts";
import { startScriptedProvider } from "../plugins/dashboard/dashboard/oidc/scripted-provider.ts";
import { enter, section } from "../plugins/dashboard/dashboard/oidc/fixture.ts";
import { installPackage } from "./package-fixture.ts";

const templates = Object.keys(await loadTemplates());
const installed = await installPackage();
const { app, main } = installed;
const root = join(import.meta.dirname, "../..");
after(() => installed[Symbol.dispose]());

// Without the variables that would change the outcome.
const { SLUICE_CONFIG: _, DATA_DIR: __, GATEWAY_ENV: ___, ...env } = process.env;

function sluice(...args: readonly string[]) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [main, ...args], {
    cwd: app,
    env,
    encoding: "utf8",
  });
  return { status, stdout, stderr };
}

// Finding D1: accounts were stored in node_modules/sluice-gateway/data, and every upgrade deleted them.
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
  installed.install();
  assert.equal(sluice("workspaces", "list", "--json").stdout, kept);
  assert.ok(existsSync(join(app, "data", "state.db")));
});

for (const template of templates) {
  test(`the package has the template ${template}, which passes the check`, () => {
    const target = join(app, template);
    const { status, stderr } = sluice("init", "--template", template, "--dir", target);
    assert.equal(status, 0, stderr);
    const checked = sluice("check", "--config", join(target, "pipeline.yaml"));
    assert.equal(checked.status, 0, checked.stdout);
  });
}

test("the package validates pipeline.yaml without ajv, and finds the same faults as a checkout", () => {
  const ajv = join(dirname(main), "chunks/ajv.cjs");
  renameSync(ajv, `${ajv}.away`);
  try {
    const checked = sluice("check", "--config", "node_modules/sluice-gateway/pipeline.yaml");
    // The package's own file keeps its data in node_modules, which is the only fault.
    assert.deepEqual(checked.stdout.match(/SLUICE_\w+/g), ["SLUICE_STORE_MISPLACED"]);
  } finally {
    renameSync(`${ajv}.away`, ajv);
  }
  const file = join(app, "faulty.yaml");
  writeFileSync(
    file,
    `version: 1
server: { prot: 8080, host: 7, connections: many }
log: { level: loud }
tools: [{ docs-search: { owm: true } }]
routes:
  - { path: /, methods: [GET], run: [{ rate-limit: { failures: 0 } }, { trace: yes }], to: front-page }
`,
  );
  const arguments_ = ["check", "--config", file, "--json"];
  const checkout = spawnSync(process.execPath, [join(root, "src/main.ts"), ...arguments_], {
    cwd: app,
    env,
    encoding: "utf8",
  });
  const { stdout, stderr } = sluice(...arguments_);
  assert.equal(stdout, checkout.stdout, stderr);
  assert.match(stdout, /prot/);
});

/** Starts a server of the installed package. `listening`: the document that the command prints. */
async function serve(
  folder: string,
  args: readonly string[],
  variables: Readonly<Record<string, string | undefined>> = {},
) {
  const child = spawn(process.execPath, [main, ...args, "--json"], {
    cwd: folder,
    env: { ...env, PORT: "0", ADMIN_PORT: "0", ...variables },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const errors: string[] = [];
  child.stderr.on("data", (bytes: Buffer) => errors.push(bytes.toString()));
  const closed = once(child, "close");
  const { promise, resolve, reject } = Promise.withResolvers<Record<string, string>>();
  createInterface({ input: child.stdout }).on("line", (line) => {
    // The command writes this line.
    if (/^\{("version":"[^"]*",)?"url"/.test(line))
      resolve(JSON.parse(line) as Record<string, string>);
  });
  child.once("exit", () => reject(new Error(`the server ended: ${errors.join("")}`)));
  return {
    listening: await promise,
    async [Symbol.asyncDispose]() {
      child.kill("SIGTERM");
      await closed;
      assert.equal(child.exitCode, 0, errors.join(""));
    },
  };
}

test("sluice start serves a plugin that imports the package", async () => {
  const folder = join(app, "started");
  mkdirSync(folder);
  writeFileSync(
    join(folder, "gate.js"),
    `import { defineStep, refuse } from "sluice-gateway/plugin";
    export default defineStep({
      name: "gate",
      description: "Refuses every request.",
      start: () => ({ requestHeaders: () => refuse("GATEWAY_PERMISSION_DENIED") }),
    });`,
  );
  writeFileSync(
    join(folder, "pipeline.yaml"),
    `version: 1
server: { port: "\${PORT:-8080}" }
admin: { port: "\${ADMIN_PORT:-9090}" }
plugins: { gate: ./gate.js }
routes:
  - { path: /closed, methods: [GET], run: [gate], to: front-page }
  - { path: /, methods: [GET], to: front-page }
`,
  );
  await using server = await serve(folder, ["start"]);
  const { url = "", admin_url: adminUrl = "" } = server.listening;
  assert.equal((await fetch(`${url}/healthz`)).status, 200);
  assert.equal((await fetch(url)).status, 200);
  assert.equal((await fetch(`${url}/closed`)).status, 403);
  assert.equal((await fetch(`${adminUrl}/metrics`)).status, 200);
});

test("the package has the plugins of the module extras, which start without further packages", async () => {
  const folder = join(app, "extras");
  mkdirSync(folder);
  writeFileSync(
    join(folder, "pipeline.yaml"),
    `version: 1
server: { port: "\${PORT}" }
admin: { port: "\${ADMIN_PORT}" }
tools:
  - mcp-federation: { prefix: acme, url: "http://127.0.0.1:9", tools: { echo: 5 } }
routes:
  - path: /mcp
    methods: [POST]
    run:
      - cors: { origins: ["https://app.test"] }
      - resource-challenge: { resource: "https://gateway.test/mcp" }
      - jwt-auth: { issuer: "http://127.0.0.1:9", audience: a, jwks: "http://127.0.0.1:9" }
      - redact-pii
      - authorize: { require: key }
      - meter
    to: mcp
  - path: /.well-known/oauth-protected-resource/mcp
    methods: [GET]
    to: { resource-metadata: { resource: "https://gateway.test/mcp", issuer: "https://id.test" } }
`,
  );
  await using server = await serve(folder, ["start"]);
  const headers = { origin: "https://app.test", authorization: "Bearer a.b.c" };
  const refused = await fetch(`${server.listening["url"]}/mcp`, { method: "POST", headers });
  assert.equal(refused.status, 401);
  assert.match(refused.headers.get("www-authenticate") ?? "", /resource_metadata=/);
  assert.equal(refused.headers.get("access-control-allow-origin"), "https://app.test");
});

test("the dashboard of the package signs a user of an OpenID provider in", async () => {
  const folder = join(app, "signed-in");
  mkdirSync(folder);
  await using provider = await startScriptedProvider();
  writeFileSync(
    join(folder, "pipeline.yaml"),
    `version: 1
server: { port: "\${PORT}" }
admin: { port: "\${ADMIN_PORT}" }
${section(provider.issuer)}
routes:
  - { path: /, methods: [GET], to: front-page }
`,
  );
  await using server = await serve(folder, ["start"]);
  const adminUrl = server.listening["admin_url"] ?? "";
  const cookie = await enter({ adminUrl }, provider, { sub: "u", groups: ["ops"] });
  const headers = { cookie, "x-sluice-dashboard": "1" };
  const session = await fetch(`${adminUrl}/dashboard/api/session`, { headers });
  assert.match(await session.text(), /"subject":"u","role":"admin"/);
});

test("sluice dev answers a charged call, searches the documentation and shows the dashboard", async () => {
  const folder = join(app, "tried");
  mkdirSync(folder);
  await using server = await serve(folder, ["dev"]);
  const {
    url = "",
    admin_url: adminUrl = "",
    key = "",
    workspace_id: workspace,
  } = server.listening;
  const call = async (path: string, body: object): Promise<string> => {
    const response = await fetch(`${url}${path}`, {
      method: "POST",
      headers: { "content-type": "application/json", authorization: `Bearer ${key}` },
      body: JSON.stringify(body),
    });
    assert.equal(response.status, 200);
    return response.text();
  };
  const rpc = { jsonrpc: "2.0", id: 1 };
  assert.match(await call("/v1/ledger/rpc", { ...rpc, method: "system_health" }), /"result"/);
  const params = { tool: "docs_search", params: { query: "reload pipeline.yaml" } };
  assert.match(await call("/rpc", { ...rpc, method: "tools.call", params }), /docs:\/\/sluice/);
  // A thread makes the report.
  const usage = await fetch(`${url}/tma/workspaces/${workspace}/usage`, {
    headers: { authorization: `Bearer ${key}` },
  });
  assert.match(await usage.text(), /"groups":\[\{"calls":2,/);
  assert.equal((await fetch(`${adminUrl}/dashboard/assets/lib/preact.js`)).status, 200);
  assert.equal((await fetch(`${url}/docs/api?asset=swagger-ui-bundle.js`)).status, 200);
});

test("the command that sluice dev prints to verify its evidence accepts it, and so does sluice connect", async () => {
  const folder = join(app, "verified");
  mkdirSync(folder);
  const child = spawn(process.execPath, [main, "dev"], {
    cwd: folder,
    env: { ...env, PORT: "0", ADMIN_PORT: "0" },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const closed = once(child, "close");
  let command: string | undefined;
  for await (const line of createInterface({ input: child.stdout })) {
    if (line.startsWith("npx sluice verify ")) command = line;
    if (line === "Press Ctrl-C to stop.") break;
  }
  const [, , ...args] = command?.split(" ") ?? [];
  const verified = sluice(...args);
  const local = spawn(
    process.execPath,
    [main, "connect", ...args.slice(1), "--port", "0", "--json"],
    { env, stdio: ["ignore", "pipe", "inherit"] },
  );
  const ended = once(local, "close");
  const [line] = (await once(createInterface({ input: local.stdout }), "line")) as [string];
  // `sluice connect --json` prints this.
  const { url, key, model } = JSON.parse(line) as Record<"url" | "key" | "model", string>;
  const answer = await fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify({ model, messages: [{ role: "user", content: "Hi" }] }),
  });
  assert.equal(answer.status, 200, await answer.text());
  local.kill("SIGTERM");
  assert.deepEqual(await ended, [0, null]);
  child.kill("SIGTERM");
  await closed;
  assert.equal(verified.status, 0, verified.stdout + verified.stderr);
  assert.match(verified.stdout, /^pass +dcap_qvl[^]*^accepted: /m);
});

test("the compile cache is below a folder of the user, not where another user can put it", () => {
  const folder = mkdtempSync(join(app, "tmp-"));
  const run = (): readonly string[] => {
    const { NODE_COMPILE_CACHE: ____, ...rest } = env;
    const { status } = spawnSync(process.execPath, [main, "--version"], {
      env: { ...rest, TMPDIR: folder },
    });
    assert.equal(status, 0);
    return readdirSync(folder, { recursive: true }).map(String);
  };
  const own = `sluice-compile-cache-${process.getuid?.()}`;
  assert.ok(run().some((path) => path.startsWith(`${own}/`)));
  rmSync(join(folder, own), { recursive: true });
  mkdirSync(join(folder, own));
  chmodSync(join(folder, own), 0o777);
  assert.deepEqual(run(), [own]);
});

test("sluice start keeps compiled code, and replaces code that is damaged or of another program", async () => {
  const folder = join(app, "kept");
  mkdirSync(folder);
  const routes = "routes: [{ path: /, methods: [GET], to: front-page }]";
  const ports = `server: { port: "\${PORT}" }\nadmin: { port: "\${ADMIN_PORT}" }`;
  writeFileSync(join(folder, "pipeline.yaml"), `version: 1\n${ports}\n${routes}\n`);
  const start = async (cache?: string): Promise<void> => {
    await using server = await serve(folder, ["start"], { NODE_COMPILE_CACHE: cache });
    assert.equal((await fetch(server.listening["url"] ?? "")).status, 200);
  };
  const kept = (): string[] => {
    const beside = dirname(main);
    const names = readdirSync(beside).filter((name) => name.startsWith("sluice-start-"));
    return names.map((name) => join(beside, name));
  };
  for (const file of kept()) rmSync(file);
  // In a folder that cannot be made.
  await start(join(folder, "pipeline.yaml/cache"));
  assert.deepEqual(kept(), []);

  await start();
  const [file = ""] = kept();
  const whole = readFileSync(file);
  const other = new Script("1").createCachedData();
  const head = Buffer.alloc(4);
  head.writeUInt32LE(crc32(other));
  const damaged = Buffer.from(whole);
  damaged.writeUInt8(damaged.readUInt8(whole.length >> 1) ^ 1, whole.length >> 1);
  for (const bytes of [damaged, whole.subarray(0, 3), Buffer.concat([head, other])]) {
    writeFileSync(file, bytes);
    await start();
    const found = readFileSync(file);
    assert.deepEqual(kept(), [file]);
    assert.equal(found.readUInt32LE(0), crc32(found.subarray(4)));
    assert.ok(found.length > 1_000_000, String(found.length));
  }
  // Code that fits stays.
  const fitting = readFileSync(file);
  await start();
  assert.ok(readFileSync(file).equals(fitting));
});

test("sluice start keeps the parsed pipeline.yaml by the hash of its text, for this user alone", async () => {
  const folder = join(app, "kept-yaml");
  const file = join(folder, "pipeline.yaml");
  mkdirSync(folder);
  const ports = `server: { port: "\${PORT}" }\nadmin: { port: "\${ADMIN_PORT}" }\nstore: { data: "\${WHERE}" }`;
  const servesAt = async (path: string): Promise<void> => {
    await using server = await serve(folder, ["start"], {
      WHERE: "not-kept",
      NODE_COMPILE_CACHE: undefined,
    });
    assert.equal((await fetch(new URL(path, server.listening["url"]))).status, 200, path);
  };
  const write = (path: string): void => {
    const route = `{ path: ${path}, methods: [GET], to: front-page }`;
    writeFileSync(file, `version: 1\n${ports}\nroutes: [${route}]\n`);
  };
  const kept = (): string[] => {
    const names = readdirSync(dirname(main)).filter((name) => name.startsWith("sluice-yaml-"));
    return names.map((name) => join(dirname(main), name));
  };
  for (const each of kept()) rmSync(each);
  write("/one");
  await servesAt("/one");
  const [keptFile = "", ...others] = kept();
  assert.deepEqual(others, []);
  assert.equal(statSync(keptFile).mode & 0o777, 0o600);
  const content = readFileSync(keptFile).subarray(4).toString();
  assert.ok(content.includes("${WHERE}") && !content.includes("not-kept"));

  // The kept tree is used, so a change of it shows.
  const changed = Buffer.from(content.replace("/one", "/two"));
  const head = Buffer.alloc(4);
  head.writeUInt32LE(crc32(changed));
  writeFileSync(keptFile, Buffer.concat([head, changed]));
  await servesAt("/two");
  // A damaged one is not used.
  writeFileSync(keptFile, Buffer.concat([head, changed.subarray(0, -1)]));
  await servesAt("/one");
  // A file that has changed is parsed, and replaces the kept tree.
  write("/three");
  await servesAt("/three");
  assert.deepEqual(kept(), [keptFile]);
  assert.ok(readFileSync(keptFile, "utf8").includes("/three"));
});

test("an uncaught error of the client prints a short line of code and a stack", () => {
  const source = `import { connect } from "sluice-gateway/client"; await connect({});`;
  const arguments_ = ["--input-type=module", "--eval", source];
  const { status, stderr } = spawnSync(process.execPath, arguments_, {
    cwd: app,
    encoding: "utf8",
  });
  assert.equal(status, 1);
  assert.match(stderr, /client\.js:\d+/);
  assert.ok(stderr.length < 2_000, stderr);
});

test("a Node that cannot load the package gets one line that says what to do", () => {
  const old = `Object.defineProperty(process, "versions", { value: { node: "18.20.8" } });
    process.getBuiltinModule = undefined;`;
  const { status, stderr } = spawnSync(
    process.execPath,
    ["--import", `data:text/javascript,${encodeURIComponent(old)}`, main, "version"],
    { encoding: "utf8", env },
  );
  assert.equal(status, 1);
  assert.match(
    stderr,
    /^sluice requires Node 24 or later; this is Node 18\.20\.8\. Install a newer one: npm install node, .*\n$/,
  );
});

test("the software bill of materials is valid CycloneDX and lists what is bundled and installed", () => {
  const bom = JSON.parse(readFileSync(join(dirname(main), "../sbom.cdx.json"), "utf8")) as {
    components: { name: string; properties: { value: string }[] }[];
  };
  const folder = dirname(
    fileURLToPath(import.meta.resolve("@cyclonedx/cyclonedx-library/package.json")),
  );
  const schema = (name: string): object =>
    JSON.parse(
      readFileSync(join(folder, "res/schema", `${name}.SNAPSHOT.schema.json`), "utf8"),
    ) as object;
  const ajv = new Ajv({ strict: false, validateFormats: false, allErrors: true });
  for (const name of ["spdx", "jsf-0.82"]) {
    ajv.addSchema(schema(name), `http://cyclonedx.org/schema/${name}.SNAPSHOT.schema.json`);
  }
  const validate = ajv.compile(schema("bom-1.6"));
  assert.ok(validate(bom), JSON.stringify(validate.errors));
  const place = new Map(bom.components.map(({ name, properties }) => [name, properties[0]?.value]));
  assert.equal(place.get("yaml"), "bundled");
  for (const name of Object.keys(manifest.dependencies)) assert.ok(place.has(name), name);
  assert.equal(place.has("typescript"), false);
});
