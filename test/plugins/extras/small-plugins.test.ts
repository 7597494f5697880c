/** The plugins that authors read as examples: cors, evm-node, resource-challenge and resource-metadata. */
import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { setImmediate } from "node:timers/promises";
import {
  scriptedUpstream,
  startTestGateway,
  testService,
  testStep,
  testSurface,
} from "../../../plugins/contracts/testing.ts";
import cors from "../../../plugins/extras/cors/index.ts";
import { documentedPipeline } from "./documented.ts";
import evmNode from "../../../plugins/extras/evm-node/index.ts";
import type { Reply } from "../../../src/plugin.ts";
import resourceChallenge from "../../../plugins/extras/resource-challenge/index.ts";
import resourceMetadata from "../../../plugins/extras/resource-metadata/index.ts";

const folder = join(import.meta.dirname, "../../../plugins/extras");

function codeLinesOf(plugin: string): number {
  const files = globSync(`${plugin}/**/*.ts`, { cwd: folder });
  const lines = files.flatMap((file) => readFileSync(join(folder, file), "utf8").split("\n"));
  return lines.filter((line) => !/^\s*(\/\/|\/\*|\*|$)/.test(line)).length;
}

test("each plugin has less than 120 lines of code, because authors read them as examples", () => {
  for (const plugin of globSync("*/", { cwd: folder })) {
    const lines = codeLinesOf(plugin);
    assert.ok(lines > 20 && lines < 120, `${plugin} has ${lines} lines`);
  }
});

const app = "https://app.test";
const twoOrigins = { origins: [app, "http://127.0.0.1:5173"] };
const asked = { "access-control-request-method": "POST" };

function corsOf(headers: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const names = Object.keys(headers).filter((name) => /^(access-control-.*|vary)$/.test(name));
  return Object.fromEntries(names.map((name) => [name, headers[name]]));
}

test("a preflight request of an allowed origin is answered, and does not reach the surface", async () => {
  const surface = () => assert.fail("the surface was called");
  const more = { headers: ["x-a", "x-b"], methods: ["GET", "PUT"], maxAgeSeconds: 60 };
  await using tested = await testStep(cors, { options: { ...twoOrigins, ...more }, surface });
  const headers = { ...asked, origin: app };
  const answer = await tested.send({ method: "OPTIONS", headers });
  assert.equal(answer.status, 204);
  assert.deepEqual(corsOf(answer.headers), {
    "access-control-allow-origin": app,
    "access-control-allow-methods": "GET, PUT",
    "access-control-allow-headers": "x-a, x-b",
    "access-control-max-age": "60",
    vary: "Origin",
  });
});

for (const origin of ["https://evil.test", "null", `${app}.evil.test`, app.toUpperCase()]) {
  test(`the origin ${origin} is allowed nothing, and its requests pass`, async () => {
    const headers = [
      ["access-control-allow-origin", "*"],
      ["access-control-allow-credentials", "true"],
    ].flat();
    const surface = () => ({ status: 200, headers, body: "ok" });
    const more = { credentials: true, exposedHeaders: ["x-a"] };
    await using tested = await testStep(cors, { options: { ...twoOrigins, ...more }, surface });
    const preflight = await tested.send({ method: "OPTIONS", headers: { ...asked, origin } });
    assert.deepEqual([preflight.status, corsOf(preflight.headers)], [204, { vary: "Origin" }]);
    const answer = await tested.send({ method: "POST", headers: { origin } });
    assert.deepEqual([answer.status, answer.body], [200, "ok"]);
    assert.deepEqual(corsOf(answer.headers), { vary: "Origin" });
  });
}

test("an answer for an allowed origin, also a refusal, can be read by its pages", async () => {
  const surface = () => ({ status: 403, headers: ["vary", "Accept"], body: "no" });
  const more = { credentials: true, exposedHeaders: ["x-request-id", "x-a"] };
  await using tested = await testStep(cors, { options: { ...twoOrigins, ...more }, surface });
  const answer = await tested.send({ method: "POST", headers: { origin: app } });
  assert.deepEqual([answer.status, answer.body], [403, "no"]);
  const { vary, ...fields } = corsOf(answer.headers);
  assert.deepEqual(fields, {
    "access-control-allow-origin": app,
    "access-control-allow-credentials": "true",
    "access-control-expose-headers": "x-request-id, x-a",
  });
  assert.deepEqual(String(vary).split(/, ?/).toSorted(), ["Accept", "Origin"]);
});

test("requests that are not preflight requests pass, and caches keep their answers apart", async () => {
  await using tested = await testStep(cors, { options: twoOrigins });
  for (const request of [
    { method: "GET" },
    { method: "OPTIONS" },
    { method: "OPTIONS", headers: asked },
    { method: "OPTIONS", headers: { origin: app } },
    { method: "POST", headers: { ...asked, origin: app } },
  ]) {
    const { status, body, headers } = await tested.send(request);
    assert.deepEqual([status, body, headers["vary"]], [200, "ok", "Origin"]);
  }
});

test('the origin "*" allows every page, with one answer for all of them', async () => {
  await using tested = await testStep(cors, { options: { origins: ["*"] } });
  const answer = await tested.send({ headers: { origin: "https://any.test" } });
  assert.deepEqual(corsOf(answer.headers), { "access-control-allow-origin": "*" });
});

const wrongOptions = [
  { origins: ["*"], credentials: true },
  { origins: [] },
  { origins: ["app.test"] },
  { origins: [`${app}/`] },
  { origins: ["https://App.test"] },
  { origins: [app], headers: ["x-a\r\nset-cookie"] },
];

test("options that allow too much, or nothing, are refused", async () => {
  for (const options of wrongOptions) {
    await assert.rejects(testStep(cors, { options }), /credentials|origins|headers/);
  }
});

test("in a gateway, pages call a route that lists only POST, and read its refusals", async () => {
  await using gateway = await startTestGateway({ pipeline: documentedPipeline("cors") });
  const origin = "https://app.example.com";
  const send = (method: string, more: Record<string, string>, path = "/rpc"): Promise<Response> =>
    fetch(gateway.url + path, { method, headers: { origin, ...more } });
  for (const path of ["/rpc", "/unknown"]) {
    const preflight = await send("OPTIONS", asked, path);
    assert.equal(preflight.status, 204);
    assert.equal(preflight.headers.get("access-control-allow-origin"), origin);
    assert.match(preflight.headers.get("access-control-allow-headers") ?? "", /authorization/);
    assert.notEqual(preflight.headers.get("x-request-id"), null);
  }
  const authorization = `Bearer ${gateway.key}`;
  for (const [answer, status] of [
    [await send("POST", {}), 401],
    [await send("POST", { authorization }), 415],
    [await send("PUT", { authorization }), 405],
    [await send("OPTIONS", {}), 405],
    [await send("GET", {}, "/unknown"), 404],
  ] as const) {
    assert.equal(answer.status, status);
    assert.equal(answer.headers.get("access-control-allow-origin"), origin);
    assert.equal(answer.headers.get("vary"), "Origin");
  }
});

test("a plugin that uses the service needs the section", async () => {
  await assert.rejects(testService(evmNode), /the section "evm-node" is missing/);
});

test("the service knows the newest block, calls allowed methods and reports a node that cannot be reached", async () => {
  let isAway = false;
  await using node = await scriptedUpstream(({ body }) => {
    if (isAway) return { status: 500, body: "down" };
    const { id, method } = JSON.parse(body) as { id: number; method: string };
    return { body: { jsonrpc: "2.0", id, result: method === "eth_blockNumber" ? "0x2a" : "0x0" } };
  });
  const methods = ["eth_blockNumber", "eth_getBalance", "eth_call"];
  const options = { "evm-node": { url: node.url, methods, everyMs: 12_000, timeoutMs: 5_000 } };
  await using tested = await testService(evmNode, { options });
  assert.equal(tested.service.head(), 42);
  assert.equal(await tested.service.call("eth_getBalance", ["0x00", "latest"]), "0x0");
  await assert.rejects(tested.service.call("eth_sendRawTransaction"), /not allowed/);
  const backend = { kind: "evm", title: "evm node", details: { head: 42 } };
  assert.deepEqual(tested.backends(), [{ ...backend, ready: true }]);
  isAway = true;
  await assert.rejects(tested.service.call("eth_call"), /did not send a JSON-RPC answer/);
  tested.clock.advance(12_000);
  while (tested.lines.length === 0) await setImmediate();
  assert.deepEqual(tested.backends(), [{ ...backend, ready: "the node does not answer" }]);
});

const protectedMcp = { resource: "https://gateway.test/mcp" };
const wellKnown = "https://gateway.test/.well-known/oauth-protected-resource";
const refusing = (): Reply => ({
  status: 401,
  headers: ["www-authenticate", 'Bearer realm="gateway"'],
  body: "no",
});

test("a 401 names the metadata, whose path follows from that of the resource, and keeps its body", async () => {
  for (const [resource, path] of [
    ["https://gateway.test", ""],
    ["https://gateway.test/", ""],
    ["https://gateway.test/a/mcp?tenant=1", "/a/mcp?tenant=1"],
  ] as const) {
    const options = { resource };
    await using tested = await testStep(resourceChallenge, { options, surface: refusing });
    const { headers, body } = await tested.send();
    assert.equal(headers["www-authenticate"], `Bearer resource_metadata="${wellKnown}${path}"`);
    assert.equal(body, "no");
  }
});

test("only an answer with status 401 has a challenge", async () => {
  for (const status of [200, 403, 503]) {
    const surface = (): Reply => ({ status });
    await using tested = await testStep(resourceChallenge, { options: protectedMcp, surface });
    assert.equal((await tested.send()).headers["www-authenticate"], undefined);
  }
});

test("an address that is not one of a resource is refused at the start", async () => {
  for (const resource of ["gateway.test/mcp", "https://gateway.test:99999/mcp"]) {
    const started = testStep(resourceChallenge, { options: { resource } });
    await assert.rejects(started, /resource|Invalid URL/);
  }
  const options = { ...protectedMcp, issuer: "https://id.acme.test" };
  for (const resource of ["gateway.test/mcp", "https://", "https://gateway.test/mcp#tools"]) {
    const started = testSurface(resourceMetadata, { options: { ...options, resource } });
    await assert.rejects(started, /resource/);
  }
});

test("without the option `scopes`, the metadata names none, and pages of every origin can read it", async () => {
  const options = { ...protectedMcp, issuer: "https://id.acme.test" };
  await using tested = await testSurface(resourceMetadata, { options });
  const { status, headers, body } = await tested.send();
  assert.equal(status, 200);
  assert.equal(headers["content-type"], "application/json");
  assert.equal(headers["access-control-allow-origin"], "*");
  assert.deepEqual(JSON.parse(body), {
    resource: options.resource,
    authorization_servers: [options.issuer],
    bearer_methods_supported: ["header"],
  });
});
