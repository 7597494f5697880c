/** A whole gateway with the pipeline.yaml of the README: tokens on every surface. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { exportJWK, generateKeyPair, SignJWT } from "jose";
import {
  scriptedUpstream,
  startTestGateway,
  type ScriptedUpstream,
  type TestGateway,
} from "sluice-gateway/testing";

const { publicKey, privateKey } = await generateKeyPair("RS256");
const jwk = { ...(await exportJWK(publicKey)), kid: "k1", alg: "RS256" };
const audience = "https://gateway.test/mcp";

const readme = readFileSync(join(import.meta.dirname, "README.md"), "utf8");
const documented = /```yaml\n(.*?)```/s.exec(readme)?.[1] ?? "";

let provider: ScriptedUpstream;
let models: ScriptedUpstream;
let gateway: TestGateway;

before(async () => {
  provider = await scriptedUpstream([{ body: { keys: [jwk] } }]);
  models = await scriptedUpstream(({ path }) => {
    if (path === "/v1/models") return { body: { object: "list", data: [{ id: "acme/m-1" }] } };
    const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };
    const message = { role: "assistant", content: "hi" };
    return { body: { choices: [{ index: 0, message, finish_reason: "stop" }], usage } };
  });
  // The test sends more requests from one address than a gateway allows.
  const pipeline = documented
    .replaceAll("./jwt-auth/", `${import.meta.dirname}/`)
    .replaceAll("- rate-limit", "- rate-limit: { burst: 100000 }");
  const env = {
    OIDC_ISSUER: provider.url,
    OIDC_AUDIENCE: audience,
    OIDC_JWKS: `${provider.url}/keys`,
    MODELS_URL: models.url,
  };
  gateway = await startTestGateway({ pipeline, env, account: { plan: "developer" } });
  // The gateway is ready when it has read the models.
  while ((await fetch(`${gateway.url}/readyz`)).status !== 200) await new Promise(setImmediate);
});

after(async () => {
  await gateway?.[Symbol.asyncDispose]();
  await provider?.[Symbol.asyncDispose]();
  await models?.[Symbol.asyncDispose]();
});

function token(changes: object = {}): Promise<string> {
  const now = Math.floor(Date.now() / 1000);
  const claims = { iss: provider.url, aud: audience, sub: "ada", iat: now, exp: now + 600 };
  const more = { org_id: gateway.workspaceId, scope: "docs:read inference" };
  return new SignJWT({ ...claims, ...more, ...changes })
    .setProtectedHeader({ alg: "RS256", kid: "k1" })
    .sign(privateKey);
}

/** Sends a request with a token, or another value of `Authorization`. */
function send(path: string, authorization: string | undefined, body?: object): Promise<Response> {
  return fetch(gateway.url + path, {
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
const bodies: Readonly<Record<string, object>> = {
  "/rpc": {
    jsonrpc: "2.0",
    id: 1,
    method: "tools.call",
    params: { tool: tool.name, params: tool.input },
  },
  "/mcp": { jsonrpc: "2.0", id: 1, method: "initialize", params: protocol },
  "/v1/chat/completions": { model: "acme/m-1", messages },
};

for (const [path, body] of Object.entries(bodies)) {
  test(`${path} serves a caller with a token`, async () => {
    const answer = await send(path, `Bearer ${await token()}`, body);
    const text = await answer.text();
    assert.equal(answer.status, 200, text);
    assert.doesNotMatch(text, /"error"/);
  });

  for (const [what, made, message] of [
    ["no token", () => undefined, "missing authorization header"],
    ["a malformed header", () => "Bearer x", "invalid authorization format"],
    ["an API key", () => `Bearer ${gateway.key}`, "invalid authorization format"],
    ["an expired token", async () => `Bearer ${await token({ exp: 1 })}`, "unauthorized"],
    [
      "a token for another audience",
      async () => `Bearer ${await token({ aud: "x" })}`,
      "unauthorized",
    ],
  ] as const) {
    test(`${path} refuses a caller with ${what}`, async () => {
      const answer = await send(path, await made(), body);
      assert.equal(answer.status, 401);
      const refusal = { error: message, error_code: "GATEWAY_UNAUTHORIZED" };
      assert.deepEqual(await answer.json(), refusal);
      assert.equal(answer.headers.get("www-authenticate"), 'Bearer realm="gateway"');
    });
  }
}

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

test("the discovery document needs no token", async () => {
  const discovery = await send("/.well-known/mcp", undefined);
  assert.equal(discovery.status, 200);
  assert.equal(((await discovery.json()) as { mcpEndpoint: string }).mcpEndpoint, "/mcp");
  const wrong = await send("/.well-known/mcp", `Bearer ${await token({ exp: 1 })}`);
  assert.equal(wrong.status, 200);
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
