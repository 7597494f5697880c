/** The OpenAPI document of the shipped pipeline passes a public linter, and every route answers as documented. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { createConfig, lintFromString } from "@redocly/openapi-core";
import { Ajv2020 } from "ajv/dist/2020.js";
import type { Capability } from "sluice-gateway/services";
import { parse } from "yaml";
import { nodeSuite } from "../../plugins/confidential/protocol/node-crypto.ts";
import { evidenceDigest } from "../../plugins/confidential/protocol/report-data.ts";
import { startDemos } from "../../src/commands/dev.ts";
import { manualClock } from "../../src/testing/clock.ts";
import {
  startTestGateway,
  type TestGateway,
  type TestKey,
} from "../../plugins/contracts/testing.ts";
import { shipped } from "./shipped-gateway.ts";
import { openStream, openWire } from "../plugins/confidential/confidential-relay/stream-client.ts";

/** Requests without a key come from many addresses, each with its own bucket. */
const pipeline = shipped.replace("trustProxy: []", "trustProxy: [127.0.0.1]");

interface Response {
  readonly description?: string;
  readonly $ref?: string;
  readonly content?: Readonly<Record<string, object>>;
}

interface Document {
  readonly paths: Readonly<
    Record<
      string,
      Readonly<
        Record<
          string,
          {
            readonly security: readonly { readonly key?: readonly Capability[] }[];
            readonly requestBody?: object;
            readonly responses: Record<string, Response>;
          }
        >
      >
    >
  >;
  readonly components: { readonly responses: Readonly<Record<string, Response>> };
}

const everything: readonly Capability[] = [
  "ledger:read",
  "platform:read",
  "docs:read",
  "inference",
  "workspace:admin",
  "platform:admin",
];

interface Request {
  readonly status: number;
  readonly params?: Readonly<Record<string, string>>;
  readonly query?: string;
  readonly body?: unknown;
  /** Body that is sent unchanged, in place of `body`. */
  readonly text?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Key in place of the one that may do everything; null to send none. */
  readonly key?: string | null;
}

const stack = new AsyncDisposableStack();
let gateway: TestGateway;
let source: string;
let document: Document;
let poor: TestKey;
const ajv = new Ajv2020({ strict: false, validateFormats: false });
const answered = new Set<string>();
let clients = 0;

before(async () => {
  const demo = await startDemos({}, stack);
  gateway = stack.use(
    await startTestGateway({
      pipeline,
      env: { ...demo.env, LOG_LEVEL: "silent", CONFIDENTIAL_EVIDENCE: "simulated" },
      account: { capabilities: everything },
      // The clock does not advance, so no bucket refills.
      clock: manualClock(Date.now()),
    }),
  );
  poor = await gateway.issue({ cuLimit24hMilli: 1, capabilities: ["ledger:read", "inference"] });
  source = await (await fetch(`${gateway.url}/openapi.json`)).text();
  // The other tests of this file check the content.
  document = JSON.parse(source) as Document;
  ajv.addSchema({ ...document, $id: "document" });
});

after(() => stack.disposeAsync());

function pointer(...path: readonly string[]): string {
  return path
    .map((part) => encodeURIComponent(part.replaceAll("~", "~0").replaceAll("/", "~1")))
    .join("/");
}

async function check(method: string, path: string, request: Request): Promise<Headers> {
  const { params = {}, query = "", body, key = gateway.key, headers = {} } = request;
  const name = `${method} ${path}`;
  if (request.status < 400) answered.add(name);
  const operation = document.paths[path]?.[method.toLowerCase()];
  assert.ok(operation, `${name} is not documented`);
  const target = path.replaceAll(/\{(\w+)\}/g, (_, param: string) => params[param] ?? "");
  const text = request.text ?? (body === undefined ? undefined : JSON.stringify(body));
  const answer = await fetch(`${gateway.url}${target}${query}`, {
    method,
    headers: {
      ...(key !== null && { authorization: `Bearer ${key}` }),
      "x-forwarded-for": `192.0.2.${++clients}`,
      ...(text !== undefined && { "content-type": "application/json" }),
      ...headers,
    },
    ...(text !== undefined && { body: text }),
  });
  const received = await answer.text();
  assert.equal(answer.status, request.status, `${name}: ${received}`);
  const status = String(answer.status);
  const stated = operation.responses[status];
  assert.ok(stated, `${name} ${status} is not documented`);
  assert.ok(answer.headers.has("x-request-id"));
  const at =
    stated.$ref?.slice(2) ?? pointer("paths", path, method.toLowerCase(), "responses", status);
  const component = stated.$ref?.slice(stated.$ref.lastIndexOf("/") + 1);
  const response = component === undefined ? stated : document.components.responses[component];
  assert.ok(response);
  const type = answer.headers.get("content-type")?.split(";", 1)[0];
  if (received === "") return answer.headers;
  assert.ok(type !== undefined && type in (response.content ?? {}), `${name} ${status}: ${type}`);
  const validate = ajv.compile({ $ref: `document#/${at}/content/${pointer(type)}/schema` });
  const value: unknown = type.endsWith("json") ? JSON.parse(received) : received;
  assert.ok(validate(value), `${name} ${status}: ${ajv.errorsText(validate.errors)}: ${received}`);
  return answer.headers;
}

/** Asks one question over the encrypted stream, so that there are a receipt and evidence. */
async function confidentialAnswer(): Promise<{ session: string; digest: string }> {
  const headers = { authorization: `Bearer ${gateway.key}` };
  using wire = await openWire(`${gateway.url}/v1/confidential/stream`, { headers });
  const model = "Demo/Echo-1";
  using stream = await openStream(wire, {
    network: "confidential-classic",
    termination: "gateway",
    model,
  });
  stream.ask({ model, messages: [{ role: "user", content: "hello" }] });
  await stream.answer();
  const digest = await evidenceDigest(nodeSuite, stream.attestation.evidence);
  assert.ok(digest !== undefined);
  const session = Buffer.from(stream.attested.core.session).toString("base64url");
  return { session, digest };
}

describe("the OpenAPI document of the shipped pipeline", () => {
  it("passes a public linter", async () => {
    // The operator states the licence of an API.
    const config = await createConfig({
      extends: ["recommended"],
      rules: {
        "info-license": "off",
        // JSON-RPC and chat bodies may have additional members, as their schemas say.
        "no-invalid-media-type-examples": { severity: "error", allowAdditionalProperties: true },
        "no-invalid-schema-examples": { severity: "error", allowAdditionalProperties: true },
      },
    });
    const problems = await lintFromString({ source, config });
    // A WebSocket route answers 101, which no rule of the linter knows.
    const upgrades = [
      "confidential~1stream/",
      "ledger~1rpc/get/",
      "ledger~1ws/",
      "ledger~1ws~1{key}/",
    ];
    const isUpgrade = (at = ""): boolean =>
      upgrades.some((path) => at.startsWith(`#/paths/~1v1~1${path}`));
    const others = problems.filter(({ location }) => !isUpgrade(location[0]?.pointer));
    const unexpected = others.map(({ ruleId, message, location }) => [
      ruleId,
      message,
      location[0]?.pointer,
    ]);
    assert.deepEqual(unexpected, []);
  });

  it("matches the answers of the public routes", async () => {
    for (const path of [
      "/healthz",
      "/readyz",
      "/.well-known/mcp",
      "/openapi.json",
      "/docs/api",
      "/",
    ]) {
      await check("GET", path, { key: null, status: 200 });
    }
    await check("GET", "/mcp/server-card", { key: null, status: 200 });
    for (const path of ["/.well-known/mcp", "/mcp/server-card", "/openapi.json", "/docs/api"]) {
      const headers = await check("GET", path, { key: null, status: 200 });
      const etag = headers.get("etag") ?? "";
      await check("GET", path, { key: null, status: 304, headers: { "if-none-match": etag } });
    }
  });

  it("matches the answers of the routes for tools", async () => {
    const rpc = (request: Request): Promise<Headers> => check("POST", "/rpc", request);
    const call = (tool: string, params: object = {}): object => {
      return { jsonrpc: "2.0", id: 1, method: "tools.call", params: { tool, params } };
    };
    await rpc({ status: 200, body: { jsonrpc: "2.0", id: 1, method: "tools.list" } });
    await rpc({ status: 200, body: call("ledger_getHealth") });
    await rpc({ status: 200, body: [call("ledger_getHealth"), call("no_such_tool")] });
    await rpc({ status: 200, text: "{" });
    await rpc({ status: 204, body: { jsonrpc: "2.0", method: "tools.list" } });
    await rpc({ status: 415, text: "{}", headers: { "content-type": "text/plain" } });
    await rpc({ status: 413, text: `"${"x".repeat(1 << 20)}"` });
    await rpc({ status: 429, key: poor.key, body: call("ledger_getHealth") });
    const mcp = (request: Request): Promise<Headers> => check("POST", "/mcp", request);
    await mcp({ status: 200, body: { tool: "ledger_getHealth", input: {} } });
    await mcp({ status: 200, body: { tool: "no_such_tool", input: {} } });
    await mcp({ status: 400, text: "{" });
    await mcp({ status: 403, body: {}, headers: { origin: "https://elsewhere.example" } });
    await mcp({ status: 401, key: null, body: {} });
    const opened = await mcp({
      status: 200,
      body: {
        jsonrpc: "2.0",
        id: 1,
        method: "initialize",
        params: {
          protocolVersion: "2025-11-25",
          capabilities: {},
          clientInfo: { name: "test", version: "1" },
        },
      },
      headers: { accept: "application/json, text/event-stream" },
    });
    const session = { "mcp-session-id": opened.get("mcp-session-id") ?? "" };
    const initialized = { jsonrpc: "2.0", method: "notifications/initialized" };
    await mcp({ status: 202, body: initialized, headers: session });
    const ping = { jsonrpc: "2.0", id: 2, method: "ping" };
    await mcp({ status: 200, body: ping, headers: { ...session, accept: "text/event-stream" } });
    await check("DELETE", "/mcp", { status: 400 });
    await check("DELETE", "/mcp", { status: 204, headers: session });
    await check("DELETE", "/mcp", { status: 404, headers: session });
  });

  it("matches the answers of the node proxy", async () => {
    const rpc = (request: Request): Promise<Headers> => check("POST", "/v1/ledger/rpc", request);
    const call = (method: string): object => ({ jsonrpc: "2.0", id: "a", method, params: [] });
    const charged = await rpc({ status: 200, body: call("system_chain") });
    assert.equal(charged.get("x-used-cu-milli"), "100");
    await rpc({ status: 200, body: [call("system_chain"), call("author_rotateKeys")] });
    await rpc({ status: 200, text: "{" });
    await rpc({ status: 204, body: { jsonrpc: "2.0", method: "system_chain" } });
    await rpc({ status: 415, text: "{}", headers: { "content-type": "text/plain" } });
    await rpc({ status: 401, key: null, body: call("system_chain") });
    await rpc({ status: 403, key: (await gateway.issue({ capabilities: [] })).key, body: {} });
    await rpc({ status: 429, key: poor.key, body: call("system_chain") });
    const slow = await gateway.issue({ rpsLimit: 1 });
    for (const status of [200, 200, 429]) {
      await rpc({ status, key: slow.key, body: call("system_chain") });
    }
  });

  it("matches the answers of inference", async () => {
    const chat = { model: "Demo/Echo-1", messages: [{ role: "user", content: "hello" }] };
    const asked = { model: "Demo/Echo-1", input: "hello" };
    const messages = { ...chat, max_tokens: 100 };
    /** The body, and a change that makes it invalid. */
    const apis = {
      "chat/completions": [chat, { messages: [] }],
      responses: [asked, { input: [] }],
      embeddings: [asked, { input: [] }],
      messages: [messages, { messages: [] }],
    } as const;
    const params = { network: "confidential-classic" };
    for (const prefix of ["", "/{network}"]) {
      for (const [api, [body, invalid]] of Object.entries(apis)) {
        const create = (request: Request): Promise<Headers> =>
          check("POST", `${prefix}/v1/${api}`, { params, ...request });
        // The demo model has no embeddings.
        if (api === "embeddings") await create({ status: 503, body });
        else {
          await create({ status: 200, body });
          await create({ status: 200, body: { ...body, stream: true } });
        }
        await create({ status: 400, body: { ...body, ...invalid } });
        await create({ status: 404, body: { ...body, model: "No/Such-1" } });
        await create({ status: 429, key: poor.key, body });
      }
      const path = `${prefix}/v1/messages`;
      const create = (request: Request): Promise<Headers> =>
        check("POST", path, { params, ...request });
      await create({ status: 400, body: messages, headers: { "x-api-key": "other" } });
      await create({ status: 401, key: null, body: messages });
      await create({ status: 415, text: "{}", headers: { "content-type": "text/plain" } });
      const count = (request: Request): Promise<Headers> =>
        check("POST", `${path}/count_tokens`, { params, ...request });
      await count({ status: 200, body: chat });
      await count({ status: 400, body: {} });
      await count({ status: 403, key: poor.key, body: chat });
      await count({ status: 404, body: { ...chat, model: "No/Such-1" } });
      const show = (status: number, rest: string): Promise<Headers> =>
        check("GET", `${prefix}/v1/models/{rest}`, { status, params: { ...params, rest } });
      await show(200, "Demo/Echo-1");
      await show(404, "No/Such-1");
    }
    const elsewhere = { network: "no-such-network" };
    const body = chat;
    await check("POST", "/{network}/v1/chat/completions", { status: 404, params: elsewhere, body });
    for (const what of ["/v1/models", "/v1/confidential/workers"]) {
      await check("GET", what, { status: 200 });
      await check("GET", what, { status: 403, key: poor.key });
      await check("GET", `/{network}${what}`, { status: 200, params });
      await check("GET", `/{network}${what}`, { status: 404, params: elsewhere });
    }
    const models = "/v1/admin/confidential/{network}/models";
    const change = (request: Request): Promise<Headers> =>
      check("PUT", models, { params, ...request });
    await change({ status: 200, body: { models: [{ id: "Demo/Other-1", enabled: true }] } });
    await change({ status: 400, body: {} });
    await change({ status: 400, text: "{" });
    await change({ status: 404, params: elsewhere, body: { models: [] } });
    await change({ status: 403, key: poor.key, body: { models: [] } });
    await change({ status: 200, body: { models: [] } });
  });

  it("matches the answers of the routes that accompany the encrypted stream", async () => {
    await check("GET", "/.well-known/confidential-policy.json", { key: null, status: 200 });
    const tickets = "/v1/confidential/tickets";
    const body = { model: "M/One-1", origin: "https://app.example" };
    await check("POST", tickets, { status: 201, body });
    await check("POST", tickets, { status: 400, body: { origin: "nowhere" } });
    await check("POST", tickets, { status: 401, key: null, body: {} });
    const { session, digest } = await confidentialAnswer();
    const seen = { session, digest, rid: "1" };
    await check("GET", "/v1/confidential/receipts/{session}/{rid}", { status: 200, params: seen });
    await check("GET", "/v1/confidential/evidence/{digest}", { status: 200, params: seen });
    const params = { digest: "0".repeat(64), session: "A".repeat(22), rid: "1" };
    await check("GET", "/v1/confidential/evidence/{digest}", { key: null, status: 404, params });
    const receipts = "/v1/confidential/receipts/{session}/{rid}";
    await check("GET", receipts, { status: 404, params });
    await check("GET", receipts, { status: 401, key: null, params });
    const upgrade = "/v1/confidential/stream";
    await check("GET", upgrade, { status: 426 });
    await check("GET", upgrade, { status: 401, key: null });
  });

  it("matches the answers of the workspace routes", async () => {
    const { workspaceId: id, key } = await gateway.issue({
      plan: "developer",
      capabilities: ["workspace:admin"],
    });
    const at = "/tma/workspaces/{id}";
    const ask = (method: string, what: string, request: Request): Promise<Headers> =>
      check(method, at + what, { params: { id }, key, ...request });
    await ask("GET", "", { status: 200 });
    await ask("GET", "", { status: 404, params: { id: gateway.workspaceId } });
    await ask("GET", "", { status: 401, key: null });
    await ask("POST", "/upgrade", { status: 200, body: { plan: "startup" } });
    await ask("POST", "/upgrade", { status: 409, body: { plan: "free" } });
    await ask("POST", "/upgrade", { status: 400, body: { plan: "unheard" } });
    await ask("POST", "/downgrade", { status: 200, body: { plan: "free" } });
    await ask("POST", "/downgrade", { status: 400, text: "{" });
    await ask("GET", "", { status: 200 });
    await ask("POST", "/cancel-downgrade", { status: 200 });
    await ask("POST", "/cancel-downgrade", { status: 409 });
    const headers = { "idempotency-key": "gateway_1" };
    const purchase = (status: number, amount: number, more = headers): Promise<Headers> =>
      ask("POST", "/cu/purchase", { status, body: { amount_cu_milli: amount }, headers: more });
    await purchase(200, 5);
    const replayed = await purchase(200, 5);
    assert.equal(replayed.get("idempotent-replayed"), "true");
    await purchase(422, 6);
    await purchase(400, 5, { "idempotency-key": "another-form" });
    await ask("GET", "/usage", { status: 200, query: "?group_by=key,day,model" });
    await ask("GET", "/usage", { status: 400, query: "?from=yesterday" });
    await ask("GET", "/audit", { status: 200, query: "?limit=2" });
    await ask("GET", "/audit", { status: 400, query: "?limit=0" });
  });

  it("matches the refusals of every route: no permission, used-up limits, wrong content type", async () => {
    const nobody = (await gateway.issue({ capabilities: [] })).key;
    const busy = (await gateway.issue({ rpsLimit: 1 })).key;
    const params = { network: "none", id: "ws", digest: "x", session: "x", rid: "1", key: "x" };
    // Sends twice the number of requests that are allowed per second.
    for (const _ of [1, 2]) await check("GET", "/openapi.json", { status: 200, key: busy });
    for (const [path, operations] of Object.entries(document.paths)) {
      for (const [name, { security, requestBody, responses }] of Object.entries(operations)) {
        const method = name.toUpperCase();
        const body = requestBody === undefined ? {} : { body: {} };
        const capabilities = security.flatMap(({ key }) => key ?? []);
        const asksForKey = security.some(({ key }) => key !== undefined);
        const refused = (status: number, key: string | null): Promise<Headers> =>
          check(method, path, { params, ...body, status, key });
        assert.equal("401" in responses, asksForKey, `${method} ${path}`);
        if (asksForKey) await refused(401, null);
        if (capabilities.length > 0) await refused(403, nobody);
        if ("429" in responses) await refused(429, busy);
        if (!("415" in responses)) continue;
        const headers = { "content-type": "text/plain" };
        await check(method, path, { params, status: 415, text: "x", headers });
      }
    }
  });

  it("has every route of the shipped pipeline", () => {
    // The file has passed `check` already, so it can be parsed.
    const { routes } = parse(shipped) as {
      routes: readonly { path: string; methods?: readonly string[] }[];
    };
    const expected = routes.flatMap(({ path, methods = ["GET"] }) =>
      // The document has a parameter for the rest of such a path.
      methods.map((method) => `${method} ${path.replace(/\*$/, "{rest}")}`),
    );
    const health = ["GET /healthz", "GET /readyz"];
    assert.deepEqual(documented().toSorted(), [...expected, ...health].toSorted());
  });

  it("has no operation without a tested answer", () => {
    // Answers inside a connection are not HTTP; see test/plugins/confidential/confidential-relay and ledger-ws in
    // test/plugins/ledger. The demo model has no embeddings; see test/plugins/inference/embeddings.
    const paths = ["confidential/stream", "ledger/rpc", "ledger/ws/{key}"];
    const embeddings = ["/v1/embeddings", "/{network}/v1/embeddings"];
    const others = [
      ...paths.map((path) => `GET /v1/${path}`),
      ...embeddings.map((path) => `POST ${path}`),
    ];
    assert.deepEqual(documented().toSorted(), [...answered, ...others].toSorted());
  });
});

function documented(): string[] {
  return Object.entries(document.paths).flatMap(([path, operations]) =>
    Object.keys(operations).map((method) => `${method.toUpperCase()} ${path}`),
  );
}
