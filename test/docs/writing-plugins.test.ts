/**
 * The example of docs/writing-plugins.md: its files, written into an empty folder, type-check, pass `check` and run.
 */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { promisify } from "node:util";
import { startGateway } from "../../src/gateway/gateway.ts";
import type { ToolsPlugin } from "../../src/plugin.ts";
import { manualClock, startTestGateway, testTools } from "../../plugins/contracts/testing.ts";
import { temporaryFolder } from "../store/folder.ts";
import { root } from "./tables.ts";

const page = readFileSync(join(root, "docs/writing-plugins.md"), "utf8");
const files = [...page.matchAll(/^`([\w.-]+)`:\n\n```\w+\n([^]*?)^```$/gm)].map(
  ([, name = "", text = ""]) => ({ name, text }),
);

function project(t: TestContext): string {
  const folder = temporaryFolder(t);
  writeFileSync(join(folder, "package.json"), '{ "type": "module" }');
  mkdirSync(join(folder, "node_modules"));
  symlinkSync(root, join(folder, "node_modules", "sluice-gateway"), "dir");
  for (const { name, text } of files) writeFileSync(join(folder, name), text);
  return folder;
}

/** The further samples of the page. The first line of each contains its name. */
const samples = new Map(
  [...page.matchAll(/^```ts\n\/\/ ([\w.-]+)\n([^]*?)^```$/gm)].map(([, name = "", text = ""]) => [
    name,
    text,
  ]),
);

function writeSample(folder: string, name: string): void {
  const text = samples.get(name);
  assert(text !== undefined, name);
  writeFileSync(join(folder, name), text);
}

test("every sample of the page is tested in this file", () => {
  const run = `
    almanac.ts changing.ts echo-socket.ts last-caller.ts paid.ts price-feed.ts price.ts
    proxy-user.ts tenant-step.test.ts`
    .trim()
    .split(/\s+/);
  assert.deepEqual([...samples.keys()].toSorted(), run);
  const blocks = page.match(/^```ts$/gm) ?? [];
  const named = files.filter(({ name }) => name.endsWith(".ts"));
  assert.equal(blocks.length, named.length + samples.size);
});

/** Type-checks the example and writes its JavaScript to `out`. Rejects with the output of the compiler. */
async function compile(folder: string, out: string): Promise<void> {
  const compilerOptions = {
    target: "esnext",
    module: "nodenext",
    strict: true,
    skipLibCheck: true,
    rootDir: ".",
    outDir: out,
    rewriteRelativeImportExtensions: true,
    erasableSyntaxOnly: true,
    verbatimModuleSyntax: true,
    types: ["node"],
    typeRoots: [join(root, "node_modules/@types")],
  };
  // This test would include the sources of `sluice-gateway/testing`, of which a package contains only declarations.
  const config = { compilerOptions, include: ["*.ts"], exclude: ["*.test.ts"] };
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify(config));
  const tsc = join(root, "node_modules/.bin/tsc");
  await promisify(execFile)(tsc, ["-p", folder, "--singleThreaded"]).catch((error: unknown) => {
    const printed = error instanceof Error && "stdout" in error ? String(error.stdout) : "";
    throw new Error(`the example does not compile:\n${printed}`, { cause: error });
  });
}

const forTests = `
server: { port: "\${PORT}", drainDelaySeconds: 0 }
admin: { port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
log: { level: silent }
`;

/** The page's pipeline with the ports and the store of this test, and without an access log. */
function placed(pipeline: string): string {
  return pipeline.replace("access-log", "{ access-log: { level: silent } }") + forTests;
}

async function greets(url: string): Promise<void> {
  const hello = await fetch(`${url}/hello`, { headers: { "x-tenant": "blue" } });
  assert.equal(hello.status, 200);
  assert.equal(hello.headers.get("x-served-by"), "acme");
  assert.deepEqual(await hello.json(), { hello: "blue" });
  const refused = await fetch(`${url}/hello`);
  assert.equal(refused.status, 400);
  assert.deepEqual(await refused.json(), {
    error: "x-tenant is missing",
    error_code: "GATEWAY_INVALID_PARAMS",
  });
}

test("the example runs as the page describes", async (t) => {
  const folder = project(t);
  const pipeline = readFileSync(join(folder, "pipeline.yaml"), "utf8");
  const byPath = placed(pipeline).replaceAll(": ./", `: ${folder}/`);
  await using gateway = await startTestGateway({ pipeline: byPath });
  await greets(gateway.url);
  const thrown = await fetch(`${gateway.url}/rpc`, {
    method: "POST",
    headers: { authorization: `Bearer ${gateway.key}`, "content-type": "application/json" },
    body: '{"jsonrpc":"2.0","id":1,"method":"tools.call","params":{"tool":"acme_throwDice","params":{"sides":1}}}',
  });
  assert.deepEqual(await thrown.json(), {
    jsonrpc: "2.0",
    id: 1,
    result: { content: { number: 1 }, usedCUMilli: 100 },
  });
});

test("the test on the page passes", async (t) => {
  const args = ["--test", "--test-reporter=tap", "tenant.test.ts"];
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: project(t), env });
  assert.match(stdout, /^# pass 1$/m);
});

test("the test of one plugin passes", async (t) => {
  const folder = project(t);
  writeSample(folder, "tenant-step.test.ts");
  const args = ["--test", "--test-reporter=tap", "tenant-step.test.ts"];
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: folder, env });
  assert.match(stdout, /^# pass 1$/m);
});

test("the plugin that uses everything for agents compiles and answers", async (t) => {
  const folder = project(t);
  writeSample(folder, "almanac.ts");
  await compile(folder, join(folder, "out"));
  const pipeline = `version: 1
plugins: { almanac: ${folder}/almanac.ts }
tools: [almanac]
lists: { agents: [request-id, authenticate, rate-limit, { authorize: { require: key } }, meter] }
routes:
  - { path: /mcp, methods: [POST, DELETE], run: [{ use: agents }], to: mcp }
${forTests}`;
  await using gateway = await startTestGateway({ pipeline });
  const ask = async (body: object): Promise<unknown> => {
    const headers = {
      authorization: `Bearer ${gateway.key}`,
      "content-type": "application/json",
      // Clients of earlier revisions get one text.
      "mcp-protocol-version": "2025-11-25",
    };
    const request = { method: "POST", headers, body: JSON.stringify(body) };
    return (await fetch(`${gateway.url}/mcp`, request)).json();
  };
  const call = (id: number, method: string, params: object): Promise<unknown> =>
    ask({ jsonrpc: "2.0", id, method, params });
  const duty = JSON.stringify(
    await call(1, "tools/call", { name: "acme_duty", arguments: { day: "monday" } }),
  );
  assert.match(duty, /"It is washing\."/);
  const none = JSON.stringify(await call(2, "tools/call", { name: "acme_duty", arguments: {} }));
  assert.match(none, /"which day\?"/);
  const document = JSON.stringify(await call(3, "resources/read", { uri: "almanac://tuesday" }));
  assert.match(document, /"ironing"/);
  const prompt = await call(4, "prompts/get", { name: "plan", arguments: { day: "monday" } });
  assert.match(JSON.stringify(prompt), /"Plan my monday\."/);
});

test("the surface with `operation` is in the OpenAPI document", async (t) => {
  const folder = project(t);
  for (const name of ["price-feed.ts", "price.ts"]) writeSample(folder, name);
  const pipeline = `version: 1
plugins: { price-feed: ${folder}/price-feed.ts, price: ${folder}/price.ts }
price-feed: { url: "http://127.0.0.1:1/prices.json" }
routes:
  - { path: "/prices/{currency}", methods: [GET], to: price }
  - { path: /openapi.json, methods: [GET], to: openapi }
${forTests}`;
  await using gateway = await startTestGateway({ pipeline });
  const text = await (await fetch(`${gateway.url}/openapi.json`)).text();
  // OpenAPI's own form.
  const { paths } = JSON.parse(text) as { paths: Record<string, { get: object }> };
  assert.partialDeepStrictEqual(paths["/prices/{currency}"]?.get, {
    summary: "Price of a currency",
    parameters: [{ name: "currency", in: "path", required: true }],
    responses: {
      200: { content: { "application/json": { schema: { required: ["usd"] } } } },
      404: { $ref: "#/components/responses/NotFound" },
    },
  });
});

test("the service of the page compiles, and runs from a packed tarball", async (t) => {
  const source = temporaryFolder(t);
  mkdirSync(join(source, "node_modules"));
  symlinkSync(root, join(source, "node_modules", "sluice-gateway"), "dir");
  for (const name of ["price-feed.ts", "price.ts"]) writeSample(source, name);
  assert.ok((samples.get("price-feed.ts") ?? "").split("\n").length < 100);
  writeFileSync(join(source, "package.json"), '{ "type": "module" }');
  const built = join(source, "built");
  await compile(source, built);
  const manifest = {
    name: "acme-sluice-prices",
    version: "1.0.0",
    type: "module",
    exports: { "./*": "./*.js" },
  };
  writeFileSync(join(built, "package.json"), JSON.stringify(manifest));
  const npm = async (cwd: string, ...args: string[]): Promise<void> =>
    void (await promisify(execFile)("npm", args, { cwd }));
  await npm(built, "pack", "--pack-destination", source);

  const prices = createServer((_, res) => res.end('{"EUR":1.25,"XXX":"none"}')).listen(
    0,
    "127.0.0.1",
  );
  t.after(() => prices.close());
  await once(prices, "listening");
  const address = prices.address();
  assert.ok(typeof address === "object" && address !== null);
  const pipeline = /^```yaml\n(plugins: \{ price-feed[^]*?)^```$/m.exec(page)?.[1] ?? "";
  const folder = temporaryFolder(t);
  writeFileSync(join(folder, "package.json"), '{ "private": true }');
  await npm(
    folder,
    "install",
    "--offline",
    "--no-audit",
    join(source, "acme-sluice-prices-1.0.0.tgz"),
  );
  symlinkSync(root, join(folder, "node_modules", "sluice-gateway"), "dir");
  const configFile = join(folder, "pipeline.yaml");
  const text = pipeline.replace("127.0.0.1:9000", `127.0.0.1:${address.port}`);
  writeFileSync(configFile, `version: 1\n${text}${forTests}`);
  const env = { PORT: "0", ADMIN_PORT: "0", DATA_DIR: join(folder, "data") };
  const gateway = await startGateway({ configFile, env, watch: false });
  t.after(() => gateway.stop());
  const answer = await fetch(`${gateway.url}/prices/EUR`);
  assert.deepEqual([answer.status, await answer.text()], [200, '{"usd":1.25}']);
  assert.equal((await fetch(`${gateway.url}/prices/XXX`)).status, 404);
  const ready = await fetch(`${gateway.adminUrl}/readyz`);
  assert.equal(ready.status, 200);
  assert.match(await ready.text(), /"service price-feed":"ok"/);
});

test("the WebSocket and the charge compile and work", async (t) => {
  const folder = project(t);
  for (const name of ["echo-socket.ts", "paid.ts"]) writeSample(folder, name);
  await compile(folder, join(folder, "out"));
  const pipeline = `version: 1
plugins:
  echo-socket: ${folder}/echo-socket.ts
  paid: ${folder}/paid.ts
lists: { keyed: [request-id, authenticate, rate-limit, { authorize: { require: key } }, meter] }
routes:
  - { path: /echo, websocket: true, to: echo-socket }
  - { path: /paid, run: [{ use: keyed }], to: paid }
${forTests}`;
  await using gateway = await startTestGateway({ pipeline });
  const authorization = `Bearer ${gateway.key}`;
  const paid = await fetch(`${gateway.url}/paid`, { headers: { authorization } });
  assert.deepEqual([await paid.text(), paid.headers.get("x-used-cu-milli")], ["the work", "250"]);
  assert.equal(await echoed(gateway.url.replace("http", "ws"), "hello"), "hello");
});

test("the step that identifies callers compiles, and its callers have the rights that it gives", async (t) => {
  const folder = project(t);
  writeSample(folder, "proxy-user.ts");
  await compile(folder, join(folder, "out"));
  const pipeline = (workspace: string): string => `version: 1
plugins: { proxy-user: ${folder}/proxy-user.ts, greeting: ${folder}/greeting.ts, tenant: ${folder}/tenant.ts }
lists: { users: [{ proxy-user: { workspaces: { ada: ${workspace} } } }] }
routes:
  - { path: /key, run: [{ use: users }, { authorize: { require: key } }, tenant], to: greeting }
  - { path: /admin, run: [{ use: users }, { authorize: { require: "platform:admin" } }, tenant], to: greeting }
${forTests}`;
  await using gateway = await startTestGateway({ pipeline: pipeline("unknown") });
  const statusOf = async (path: string, user: string): Promise<number> => {
    const headers = { "x-forwarded-user": user, "x-tenant": "blue" };
    return (await fetch(gateway.url + path, { headers })).status;
  };
  assert.equal(await statusOf("/key", "ada"), 401, "the gateway does not know the workspace");
  await gateway.write(pipeline(gateway.workspaceId));
  assert.deepEqual(await gateway.gateway.reloader.reload("test"), []);
  assert.equal(await statusOf("/key", "ada"), 200);
  assert.equal(await statusOf("/key", "eve"), 401);
  assert.equal(await statusOf("/admin", "ada"), 403);
});

test("the surface that keeps a value compiles, and finds the value after a restart", async (t) => {
  const folder = project(t);
  writeSample(folder, "last-caller.ts");
  await compile(folder, join(folder, "out"));
  const configFile = join(folder, "pipeline.yaml");
  const surface = "{ path: /last, to: last-caller }";
  writeFileSync(
    configFile,
    `version: 1\nplugins: { last-caller: ./last-caller.ts }\nroutes: [${surface}]\n${forTests}`,
  );
  const env = { PORT: "0", ADMIN_PORT: "0", DATA_DIR: join(folder, "data") };
  const answers: string[] = [];
  for (let start = 0; start < 2; start++) {
    const gateway = await startGateway({ configFile, env, watch: false });
    try {
      answers.push(await (await fetch(`${gateway.url}/last`)).text());
    } finally {
      await gateway.stop();
    }
  }
  assert.equal(answers[0], "nobody was here");
  assert.match(answers[1] ?? "", /^{"at":\d+}$/);
});

function echoed(url: string, message: string): Promise<unknown> {
  const { promise, resolve, reject } = Promise.withResolvers<unknown>();
  const socket = new WebSocket(`${url}/echo`, "echo.v1");
  socket.addEventListener("error", () => reject(new Error("the connection failed")));
  socket.addEventListener("open", () => socket.send(message));
  socket.addEventListener("message", ({ data }) => {
    resolve(data);
    socket.close();
  });
  return promise;
}

test("the sample with changing tools adds its tool in the evening", async (t) => {
  const folder = project(t);
  writeSample(folder, "changing.ts");
  await compile(folder, folder);
  const loaded = (await import(join(folder, "changing.ts"))) as { default: ToolsPlugin };
  const clock = manualClock(Date.parse("2026-01-15T17:59:00Z"));
  await using tested = await testTools(loaded.default, { clock });
  assert.deepEqual(tested.catalogue.list, []);
  clock.advance(60_000);
  const outcome = await tested.call("acme_evening");
  assert.ok(outcome.ok && outcome.json === '"Good evening!"');
  assert.equal(tested.catalogue.list.length, 1);
});
