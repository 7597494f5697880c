import assert from "node:assert/strict";
import { test } from "node:test";
import { exportJWK, generateKeyPair, SignJWT } from "jose";
import { manualClock, scriptedUpstream, testStep } from "sluice-gateway/testing";
import plugin from "./index.ts";

const { publicKey, privateKey } = await generateKeyPair("ES256");
const jwk = { ...(await exportJWK(publicKey)), kid: "k1", alg: "ES256" };
const issuer = "https://id.acme.test";

function token(clock: { now(): number }, audience = "gateway", claims = {}): Promise<string> {
  const now = Math.floor(clock.now() / 1000);
  return new SignJWT({ org_id: "ws_acme", scope: "openid ledger:read", ...claims })
    .setProtectedHeader({ alg: "ES256", kid: "k1" })
    .setIssuer(issuer)
    .setAudience(audience)
    .setSubject("ada")
    .setIssuedAt(now)
    .setExpirationTime(now + 60)
    .sign(privateKey);
}

test("claims become the workspace, the capabilities and the limits of the caller", async () => {
  await using provider = await scriptedUpstream([{ body: { keys: [jwk] } }]);
  const clock = manualClock();
  const options = { issuer, audience: "gateway", jwks: provider.url, rps: 7, dailyMilliCu: 500 };
  await using tested = await testStep(plugin, { options, clock });
  const headers = { authorization: `Bearer ${await token(clock)}` };
  const { status, slots } = await tested.send({ headers });
  assert.equal(status, 200);
  assert.equal(slots.principal?.kind, "key");
  const key = slots.principal.kind === "key" ? slots.principal.key : undefined;
  assert.equal(key?.workspaceId, "ws_acme");
  assert.deepEqual([...(key?.capabilities ?? [])], ["ledger:read"]);
  assert.deepEqual([key?.rpsLimit, key?.cuLimit24hMilli], [7, 500]);
  assert.equal((await tested.send({ headers })).status, 200);
  assert.equal(provider.requests.length, 1);
  clock.advance(61_000);
  const expired = await tested.send({ headers });
  assert.deepEqual(expired.slots.principal, { kind: "anonymous", reason: "unauthorized" });
  const other = { authorization: `Bearer ${await token(clock, "another")}` };
  const wrong = await tested.send({ headers: other });
  assert.deepEqual(wrong.slots.principal, { kind: "anonymous", reason: "unauthorized" });
  const { principal } = (await tested.send()).slots;
  assert.deepEqual(principal, { kind: "anonymous", reason: "missing authorization header" });
});

test("with a resource, the step answers its metadata and refusals name it", async () => {
  const options = {
    issuer,
    audience: "gateway",
    jwks: "http://127.0.0.1:9",
    resource: "https://gw.test/mcp",
  };
  const surface = (): { status: number } => ({ status: 401 });
  await using tested = await testStep(plugin, { options, surface });
  const path = "/.well-known/oauth-protected-resource";
  const answer = await tested.send({ path });
  assert.deepEqual(answer.json(), {
    resource: "https://gw.test/mcp",
    authorization_servers: [issuer],
  });
  const refused = await tested.send();
  assert.equal(
    refused.headers["www-authenticate"],
    `Bearer resource_metadata="https://gw.test${path}"`,
  );
});

test("claims of the token replace the limits of the options", async () => {
  await using provider = await scriptedUpstream([{ body: { keys: [jwk] } }]);
  const clock = manualClock();
  const options = { issuer, audience: "gateway", jwks: provider.url, plan: "startup" } as const;
  await using tested = await testStep(plugin, { options, clock });
  const claims = { rps: 3, daily_milli_cu: 9 };
  const headers = { authorization: `Bearer ${await token(clock, "gateway", claims)}` };
  const { principal } = (await tested.send({ headers })).slots;
  assert.ok(principal?.kind === "key");
  assert.deepEqual(
    [principal.rps, principal.key.cuLimit24hMilli, principal.plan.name],
    [3, 9, "startup"],
  );
});
