/** Tests of the protocol with an OpenID provider that has an https issuer, with a scripted provider without TLS. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  openProvider,
  ProviderError,
} from "../../../../../plugins/dashboard/dashboard/oidc/provider.ts";
import type { OidcOptions } from "../../../../../plugins/dashboard/dashboard/oidc/user.ts";
import { sendRequest, type SendRequest } from "../../../../../src/http/request.ts";
import { manualClock } from "../../../../../src/testing/clock.ts";
import {
  clientId,
  clientSecret,
  startScriptedProvider,
  type ScriptedProvider,
} from "./scripted-provider.ts";

const secrets = { state: "s".repeat(43), nonce: "n".repeat(43), verifier: "v".repeat(43) };
const redirectUri = "https://gateway.internal/dashboard/oidc/callback";

/** Opens a provider at `issuer`, whose requests reach the scripted one. `sent`: the URLs of the requests. */
function opened(issuer: string, scripted: ScriptedProvider) {
  const options: OidcOptions = {
    issuer,
    clientId,
    clientSecret,
    name: "OpenID",
    scopes: ["openid", "email"],
    rolesClaim: "groups",
    roles: { admin: ["ops"] },
    workspaceClaim: "workspace",
  };
  scripted.document = documentAt(issuer);
  const sent: string[] = [];
  const send: SendRequest = (url, request) => {
    sent.push(url);
    return sendRequest(scripted.issuer + url.slice(issuer.length), request);
  };
  return { provider: openProvider({ options, send, clock: manualClock(Date.now()) }), sent };
}

function documentAt(issuer: string): object {
  return {
    issuer,
    authorization_endpoint: `${issuer}/authorize`,
    token_endpoint: `${issuer}/token`,
    jwks_uri: `${issuer}/jwks`,
    userinfo_endpoint: `${issuer}/userinfo`,
    authorization_response_iss_parameter_supported: false,
  };
}

function isUnavailable(error: unknown): boolean {
  return error instanceof ProviderError && error.isUnavailable;
}

test("the issuer may have a path, and scopes are requested once", async () => {
  await using scripted = await startScriptedProvider();
  const issuer = "https://id.example.com/realms/main";
  const { provider, sent } = opened(issuer, scripted);
  const url = await provider.signInUrl(secrets, redirectUri);
  assert.ok(url.startsWith(`${issuer}/authorize?`), url);
  assert.equal(new URL(url).searchParams.get("scope"), "openid email");
  const back = scripted.confirm(url, { claims: { iss: issuer, groups: ["ops"] } });
  back.searchParams.delete("iss");
  const claims = await provider.claimsOf(back, secrets);
  assert.deepEqual([claims["sub"], claims["groups"]], ["user-1", ["ops"]]);
  assert.deepEqual(sent, [
    `${issuer}/.well-known/openid-configuration`,
    `${issuer}/token`,
    `${issuer}/jwks`,
  ]);
});

test("a provider with https is never sent anything in plain text", async () => {
  await using scripted = await startScriptedProvider();
  const issuer = "https://id.example.com";
  for (const member of ["token_endpoint", "jwks_uri"]) {
    const { provider, sent } = opened(issuer, scripted);
    scripted.document = { ...documentAt(issuer), [member]: "http://id.example.com/plain" };
    const url = await provider.signInUrl(secrets, redirectUri);
    const back = scripted.confirm(url, { claims: { iss: issuer, groups: ["ops"] } });
    back.searchParams.delete("iss");
    await assert.rejects(provider.claimsOf(back, secrets), ProviderError);
    assert.ok(
      sent.every((each) => each.startsWith("https://")),
      sent.join(),
    );
  }
  for (const address of ["http://id.example.com/authorize", "javascript:alert(1)", "data:,x"]) {
    const { provider } = opened(issuer, scripted);
    scripted.document = { ...documentAt(issuer), authorization_endpoint: address };
    await assert.rejects(provider.signInUrl(secrets, redirectUri), ProviderError, address);
  }
});

test("an issuer that stands for any tenant is refused", async () => {
  await using scripted = await startScriptedProvider();
  const issuer = "https://login.microsoftonline.com/common/v2.0";
  const { provider } = opened(issuer, scripted);
  const stated = "https://login.microsoftonline.com/{tenantid}/v2.0";
  scripted.document = { ...documentAt(issuer), issuer: stated };
  await assert.rejects(provider.signInUrl(secrets, redirectUri), (error) => {
    assert.match(String(error), /another issuer/);
    return isUnavailable(error);
  });
});
