/** A whole gateway with the pipeline.yaml of the README and further routes: tokens on the surfaces that need a caller. */
import assert from "node:assert/strict";
import { request } from "node:http";
import { after, before, test } from "node:test";
import { exportJWK, generateKeyPair, SignJWT } from "jose";
import {
  scriptedUpstream,
  type ScriptedUpstream,
  startTestGateway,
  type TestGateway,
} from "../../../plugins/contracts/testing.ts";
import { documentedPipeline } from "./documented.ts";

const { publicKey, privateKey } = await generateKeyPair("RS256");
const jwk = { ...(await exportJWK(publicKey)), kid: "k1", alg: "RS256" };
const audience = "https://gateway.test/mcp";

/** Further surfaces that need a caller, with the list of the README. */
const moreRoutes = `
  - path: /v1/ledger/rpc
    methods: [POST]
    run: [{ use: edge }, { authorize: { require: "ledger:read" } }, meter]
    to: { ledger-rpc: { upstream: ledger } }
  - path: /v1/ledger/rpc
    websocket: true
    run: [{ use: edge }, { authorize: { require: "ledger:read" } }, meter]
    to: { ledger-ws: { upstream: ledger } }
  - path: /tma/workspaces/{id}
    methods: [GET]
    run: [{ use: edge }, { authorize: { require: "workspace:admin" } }]
    to: { workspaces: { do: show } }

upstreams:
  ledger: { urls: "\${LEDGER_URL}" }
`;

const scopes = "docs:read inference ledger:read platform:read workspace:admin";
const hash = `0x${"1".repeat(64)}`;
/** The results of the node by method. The gateway calls the first four to check that the node is healthy. */
const nodeResults: Readonly<Record<string, unknown>> = {
  system_health: { isSyncing: false, peers: 1, shouldHavePeers: true },
  chain_getHeader: { number: "0x2a" },
  chain_getBlockHash: hash,
  chain_getFinalizedHead: hash,
  chain_getRuntimeVersion: { specName: "acme", specVersion: 1 },
};

let provider: ScriptedUpstream;
let node: ScriptedUpstream;
let models: ScriptedUpstream;
let gateway: TestGateway;

before(async () => {
  provider = await scriptedUpstream([{ body: { keys: [jwk] } }]);
  node = await scriptedUpstream(({ body }) => {
    const { id, method } = JSON.parse(body) as { id: number; method: string };
    return { body: { jsonrpc: "2.0", id, result: nodeResults[method] ?? null } };
  });
  models = await scriptedUpstream(({ path }) => {
    if (path === "/v1/models") return { body: { object: "list", data: [{ id: "acme/m-1" }] } };
    const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };
    const message = { role: "assistant", content: "hi" };
    return { body: { choices: [{ index: 0, message, finish_reason: "stop" }], usage } };
  });
  // The test sends more requests from one address than a gateway allows.
  const pipeline = documentedPipeline("jwt-auth")
    .concat(moreRoutes)
    .replaceAll("- rate-limit", "- rate-limit: { burst: 100000 }");
  const env = {
    OIDC_ISSUER: provider.url,
    OIDC_AUDIENCE: audience,
    OIDC_JWKS: `${provider.url}/keys`,
    MODELS_URL: models.url,
    LEDGER_URL: node.url,
  };
  gateway = await startTestGateway({ pipeline, env, account: { plan: "developer" } });
  // The gateway is ready when it has read the models and the head of the chain.
  while ((await fetch(`${gateway.url}/readyz`)).status !== 200) await new Promise(setImmediate);
});

after(async () => {
  await gateway?.[Symbol.asyncDispose]();
  await provider?.[Symbol.asyncDispose]();
  await node?.[Symbol.asyncDispose]();
  await models?.[Symbol.asyncDispose]();
});

function token(changes: object = {}): Promise<string> {
  const now = Math.floor(Date.now() / 1000);
  const claims = { iss: provider.url, aud: audience, sub: "ada", iat: now, exp: now + 600 };
  const more = { org_id: gateway.workspaceId, scope: scopes };
  return new SignJWT({ ...claims, ...more, ...changes })
    .setProtectedHeader({ alg: "RS256", kid: "k1" })
    .sign(privateKey);
}

function send(path: string, authorization: string | undefined, body?: object): Promise<Response> {
  return fetch(gateway.url + path.replace("{id}", gateway.workspaceId), {
    method: body === undefined ? "GET" : "POST",
    headers: {
      ...(authorization !== undefined && { authorization }),
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
}

const tool = { name: "docs_search", input: { query: "pipeline" } };
const messages = [{ role: "user", content: "hi" }];
const protocol = {
  protocolVersion: "2025-06-18",
  capabilities: {},
  clientInfo: { name: "t", version: "1" },
};
const ledgerCall = { jsonrpc: "2.0", id: 1, method: "chain_getRuntimeVersion", params: [hash] };
/** The path of each surface, and the body of a POST. `{id}` is the workspace. */
const bodies: Readonly<Record<string, object | undefined>> = {
  "/rpc": {
    jsonrpc: "2.0",
    id: 1,
    method: "tools.call",
    params: { tool: tool.name, params: tool.input },
  },
  "/mcp": { jsonrpc: "2.0", id: 1, method: "initialize", params: protocol },
  "/v1/chat/completions": { model: "acme/m-1", messages },
  "/v1/ledger/rpc": ledgerCall,
  "/tma/workspaces/{id}": undefined,
};

test("every surface serves a caller with a token, and refuses every other", async () => {
  const callers = [
    [undefined, "missing authorization header"],
    ["Bearer x", "invalid authorization format"],
    [`Bearer ${gateway.key}`, "invalid authorization format"],
    [`Bearer ${await token({ exp: 1 })}`, "unauthorized"],
    [`Bearer ${await token({ aud: "x" })}`, "unauthorized"],
  ] as const;
  for (const [path, body] of Object.entries(bodies)) {
    const served = await send(path, `Bearer ${await token()}`, body);
    const text = await served.text();
    assert.equal(served.status, 200, `${path}: ${text}`);
    assert.doesNotMatch(text, /"error"/, path);
    for (const [authorization, error] of callers) {
      const answer = await send(path, authorization, body);
      assert.equal(answer.status, 401, `${path} ${authorization}`);
      assert.deepEqual(await answer.json(), { error, error_code: "GATEWAY_UNAUTHORIZED" });
      assert.equal(answer.headers.get("www-authenticate"), 'Bearer realm="gateway"');
    }
  }
});

function refusedHandshake(authorization: string | undefined): Promise<number | undefined> {
  const headers = {
    ...(authorization !== undefined && { authorization }),
    connection: "Upgrade",
    upgrade: "websocket",
    "sec-websocket-version": "13",
    "sec-websocket-key": Buffer.alloc(16).toString("base64"),
  };
  return new Promise((resolve, reject) => {
    request(`${gateway.url}/v1/ledger/rpc`, { headers })
      .on("response", (answer) => resolve(answer.resume().statusCode))
      .on("upgrade", (_, socket) => reject(new Error("accepted", { cause: socket.destroy() })))
      .on("error", reject)
      .end();
  });
}

test("a WebSocket serves a caller with a token in the header, and charges the calls", async () => {
  const meter = gateway.gateway.use("metering") ?? assert.fail();
  const usedBefore = await meter.workspaceUsage(gateway.workspaceId);
  const authorization = `Bearer ${await token({ sub: "kay" })}`;
  const url = `${gateway.url.replace("http", "ws")}/v1/ledger/rpc`;
  const socket = new WebSocket(url, { headers: { authorization } });
  const { promise: answer, resolve, reject } = Promise.withResolvers<string>();
  socket.addEventListener("open", () => socket.send(JSON.stringify(ledgerCall)));
  socket.addEventListener("message", ({ data }) => resolve(String(data)));
  socket.addEventListener("error", () => reject(new Error("no connection")));
  socket.addEventListener("close", ({ code }) => reject(new Error(`closed with ${code}`)));
  const result = nodeResults["chain_getRuntimeVersion"];
  assert.deepEqual(JSON.parse(await answer), { jsonrpc: "2.0", id: 1, result });
  const usedAfter = await meter.workspaceUsage(gateway.workspaceId);
  assert.ok(usedAfter.includedMilliCu > usedBefore.includedMilliCu);
  socket.close();
});

test("a WebSocket without a valid token, or without the capability, is refused", async () => {
  assert.equal(await refusedHandshake(undefined), 401);
  assert.equal(await refusedHandshake(`Bearer ${gateway.key}`), 401);
  assert.equal(await refusedHandshake(`Bearer ${await token({ exp: 1 })}`), 401);
  assert.equal(await refusedHandshake(`Bearer ${await token({ scope: "inference" })}`), 403);
});

test("a token reads its own workspace and no other", async () => {
  const other = (await gateway.issue({})).workspaceId;
  const caller = `Bearer ${await token()}`;
  const answer = await send("/tma/workspaces/{id}", caller);
  assert.match(await answer.text(), new RegExp(gateway.workspaceId));
  assert.equal((await send(`/tma/workspaces/${other}`, caller)).status, 404);
});

test("scopes are the capabilities, for routes and for tools", async () => {
  const weak = `Bearer ${await token({ scope: "openid ledger:read" })}`;
  const chat = await send("/v1/chat/completions", weak, bodies["/v1/chat/completions"]);
  assert.equal(chat.status, 403);
  const call = await send("/rpc", weak, bodies["/rpc"]);
  const { error } = (await call.json()) as { error: { data: object } };
  assert.deepEqual(error.data, { errorCode: "GATEWAY_PERMISSION_DENIED" });
});

test("an agent uses a session of /mcp with its token, and nobody else can", async () => {
  const caller = `Bearer ${await token()}`;
  const opened = await send("/mcp", caller, bodies["/mcp"]);
  const session = opened.headers.get("mcp-session-id") ?? "";
  assert.notEqual(session, "");
  const params = { name: tool.name, arguments: tool.input };
  const call = (authorization: string): Promise<Response> =>
    fetch(`${gateway.url}/mcp`, {
      method: "POST",
      headers: {
        authorization,
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
        "mcp-session-id": session,
      },
      body: JSON.stringify({ jsonrpc: "2.0", id: 2, method: "tools/call", params }),
    });
  const { result } = (await (await call(caller)).json()) as { result: { isError?: boolean } };
  assert.notEqual(result.isError, true);
  // A new token of the same caller continues the session.
  assert.equal((await call(`Bearer ${await token({ jti: "2" })}`)).status, 200);
  assert.equal((await call(`Bearer ${await token({ sub: "eve" })}`)).status, 404);
});

test("the plan of the workspace limits the caller, and charges go to the workspace", async () => {
  const caller = `Bearer ${await token({ sub: "bob" })}`;
  const policyOf = async (): Promise<string> => {
    const answer = await send("/rpc", caller, bodies["/rpc"]);
    assert.equal(answer.status, 200);
    return answer.headers.get("ratelimit-policy") ?? "";
  };
  // 10 requests per second in the plan `developer`.
  assert.equal(await policyOf(), '"key";q=100000;w=10000');
  const meter = gateway.gateway.use("metering") ?? assert.fail();
  const { includedMilliCu } = await meter.workspaceUsage(gateway.workspaceId);
  assert.ok(includedMilliCu > 0);
  const limited = `Bearer ${await token({ sub: "joe", daily_milli_cu: 150 })}`;
  assert.equal((await send("/rpc", limited, bodies["/rpc"])).status, 200);
  assert.equal((await send("/rpc", limited, bodies["/rpc"])).status, 429);

  const { admin } = gateway.gateway.use("accounts") ?? assert.fail();
  await admin.setWorkspace(
    gateway.workspaceId,
    { plan: "startup" },
    { actor: "test", at: Date.now() },
  );
  // The change takes effect within a second.
  while ((await policyOf()) !== '"key";q=100000;w=2000') await new Promise(setImmediate);
});
