/**
 * The plugins jwt-auth, resource-challenge and resource-metadata in one gateway, with the pipeline.yaml of a README: a
 * client of the official SDK that knows only the address of /mcp finds the provider, gets a token and calls a tool.
 */
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import {
  Client,
  ClientCredentialsProvider,
  StreamableHTTPClientTransport,
} from "@modelcontextprotocol/client";
import { exportJWK, generateKeyPair, SignJWT } from "jose";
import {
  scriptedUpstream,
  startTestGateway,
  type ScriptedUpstream,
  type TestGateway,
} from "../../../plugins/contracts/testing.ts";
import { documentedPipeline } from "./documented.ts";

/** The tests send more requests from one address than a gateway allows. */
const limit = "rate-limit: { burst: 100000 }";
const documented = documentedPipeline("resource-metadata")
  .replaceAll("- rate-limit", `- ${limit}`)
  .replaceAll("rate-limit]", `{ ${limit} }]`);
const { publicKey, privateKey } = await generateKeyPair("ES256");
const jwk = { ...(await exportJWK(publicKey)), kid: "k1", alg: "ES256" };

interface Started {
  readonly gateway: TestGateway;
  readonly provider: ScriptedUpstream;
  readonly resource: string;
}

async function start(t: TestContext): Promise<Started> {
  const stack = new AsyncDisposableStack();
  t.after(() => stack.disposeAsync());
  const provider: ScriptedUpstream = await scriptedUpstream(async ({ path, body }) => {
    const { url } = provider;
    if (path === "/keys") return { body: { keys: [jwk] } };
    if (path === "/.well-known/oauth-authorization-server") {
      const types = { grant_types_supported: ["client_credentials"], response_types_supported: [] };
      const token_endpoint = `${url}/token`;
      const authorization_endpoint = `${url}/authorize`;
      return { body: { issuer: url, token_endpoint, authorization_endpoint, ...types } };
    }
    if (path !== "/token") return { status: 404 };
    const asked = new URLSearchParams(body);
    const claims = { scope: asked.get("scope"), org_id: gateway.workspaceId };
    const access_token = await new SignJWT(claims)
      .setProtectedHeader({ alg: "ES256", kid: "k1" })
      .setIssuer(url)
      .setAudience(asked.get("resource") ?? "none")
      .setSubject("agent")
      .setExpirationTime("10 minutes")
      .sign(privateKey);
    return { body: { access_token, token_type: "Bearer", expires_in: 600 } };
  });
  stack.use(provider);
  const env = {
    PUBLIC_URL: "http://127.0.0.1:9",
    OIDC_ISSUER: provider.url,
    OIDC_JWKS: `${provider.url}/keys`,
  };
  const gateway = await startTestGateway({ pipeline: documented, env });
  stack.use(gateway);
  // The port is known now.
  await gateway.write(documented.replaceAll("${PUBLIC_URL}", gateway.url));
  assert.deepEqual(await gateway.gateway.reloader.reload("test"), []);
  return { gateway, provider, resource: `${gateway.url}/mcp` };
}

test("a client that knows only the address of /mcp gets a token and calls a tool", async (t) => {
  const { provider, resource } = await start(t);
  const authProvider = new ClientCredentialsProvider({
    clientId: "agent",
    clientSecret: "secret",
    expectedIssuer: provider.url,
  });
  const client = new Client({ name: "agent", version: "1" });
  await client.connect(new StreamableHTTPClientTransport(new URL(resource), { authProvider }));
  const { isError } = await client.callTool({
    name: "docs_search",
    arguments: { query: "pipeline" },
  });
  assert.notEqual(isError, true);
  await client.close();
  const asked = provider.requests.filter(({ path }) => path === "/token");
  assert.equal(asked.length, 1);
  const { scope, resource: audience } = Object.fromEntries(
    new URLSearchParams(asked[0]?.body.toString()),
  );
  assert.deepEqual([scope, audience], ["docs:read", resource]);
});

test("each 401 of /mcp names the metadata, which anyone can read, and other refusals do not", async (t) => {
  const { gateway, provider, resource } = await start(t);
  const metadata = `${gateway.url}/.well-known/oauth-protected-resource/mcp`;
  const challengeOf = async (authorization: string | undefined, method = "POST") => {
    const headers = { "content-type": "application/json", ...(authorization && { authorization }) };
    const answer = await fetch(resource, { method, headers });
    await answer.text();
    return [answer.status, answer.headers.get("www-authenticate")];
  };
  assert.deepEqual(await challengeOf(undefined), [401, `Bearer resource_metadata="${metadata}"`]);
  const withError = `Bearer error="invalid_token", resource_metadata="${metadata}"`;
  for (const authorization of ["Bearer a.b.c", `Bearer ${gateway.key}`, "Basic YTpi"]) {
    assert.deepEqual(await challengeOf(authorization), [401, withError]);
  }
  assert.deepEqual(await challengeOf(undefined, "PUT"), [405, null]);

  const answer = await fetch(metadata);
  assert.equal(answer.status, 200);
  assert.deepEqual(await answer.json(), {
    resource,
    authorization_servers: [provider.url],
    bearer_methods_supported: ["header"],
    scopes_supported: ["docs:read"],
  });
  const other = await fetch(`${gateway.url}/.well-known/oauth-protected-resource`);
  assert.equal(other.status, 404);
});
