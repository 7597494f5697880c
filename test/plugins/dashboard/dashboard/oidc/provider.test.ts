/**
 * The protocol with an OpenID provider that has an https issuer, with a scripted provider without TLS, and the parser of
 * claims, which maps them to users and roles.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  openProvider,
  ProviderError,
} from "../../../../../plugins/dashboard/dashboard/oidc/provider.ts";
import {
  isComplete,
  mergeClaims,
  type OidcOptions,
  userOf,
} from "../../../../../plugins/dashboard/dashboard/oidc/user.ts";
import { sendRequest, type SendRequest } from "../../../../../src/http/request.ts";
import { manualClock } from "../../../../../src/testing/clock.ts";
import {
  clientId,
  clientSecret,
  type ScriptedProvider,
  startScriptedProvider,
} from "./scripted-provider.ts";
import { createSeal } from "../../../../../src/store/seal.ts";

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

const options: OidcOptions = {
  issuer: "https://id.example.com",
  clientId: "sluice",
  clientSecret: "secret",
  name: "OpenID",
  scopes: [],
  rolesClaim: "groups",
  roles: { admin: ["ops"], workspaceAdmin: ["tenant"], viewer: ["staff"] },
  workspaceClaim: "workspace",
};

function read(claims: object, more: Partial<OidcOptions> = {}): ReturnType<typeof userOf> {
  const all = { sub: "u", groups: ["ops"], ...claims };
  return userOf(all, { ...options, ...more }, "dev");
}

function roleOf(claims: object, more: Partial<OidcOptions> = {}): string | undefined {
  const found = read(claims, more);
  return "user" in found ? found.user.role : undefined;
}

function emailOf(claims: object): string | undefined {
  const found = read(claims);
  return "user" in found ? found.user.email : "refused";
}

test("values are compared as they are, and only those of the claim itself count", () => {
  for (const groups of [
    [],
    "",
    "ops staff",
    ["OPS", " ops"],
    [["ops"]],
    { ops: true },
    { 0: "ops" },
    null,
    undefined,
    5,
  ]) {
    assert.equal(roleOf({ groups }), undefined, JSON.stringify(groups));
  }
  const nested = { realm_access: { roles: ["ops"] }, "realm_access.roles": ["staff"] };
  assert.equal(roleOf(nested, { rolesClaim: ["realm_access", "roles"] }), "admin");
  assert.equal(roleOf(nested, { rolesClaim: "realm_access.roles" }), "viewer");
  // No name leads to what every object inherits.
  const roles = { admin: ["Object", "toString"] };
  for (const name of ["constructor", "name"]) {
    assert.equal(roleOf({}, { rolesClaim: ["constructor", name], roles }), undefined);
  }
  assert.equal(roleOf({ groups: "abc" }, { rolesClaim: ["groups", "length"] }), undefined);
});

test("a subject that could be mistaken for something else is refused", () => {
  for (const sub of [
    "",
    " ",
    "a b",
    "a (b@example.org)",
    "a\n",
    "é",
    "a".repeat(256),
    5,
    null,
    {},
  ]) {
    assert.ok("refused" in read({ sub }), JSON.stringify(sub));
  }
  for (const sub of ["a", "auth0|5f", "a".repeat(255), "!~"]) {
    assert.ok("user" in read({ sub }), sub);
  }
});

test("an e-mail address is shown unless it is not verified or has unusual characters", () => {
  const email = "a@example.org";
  assert.equal(emailOf({ email }), email);
  assert.equal(emailOf({ email, email_verified: true }), email);
  for (const more of [
    { email_verified: false },
    { email_verified: "false" },
    { email: "a b@example.org" },
    { email: "a)@example.org" },
    { email: "<b>\n" },
    { email: "é@example.org" },
    { email: "a".repeat(255) },
    { email: "" },
    { email: 5 },
  ]) {
    assert.equal(emailOf({ email, ...more }), undefined, JSON.stringify(more));
  }
});

test("the longest session fits into a cookie", () => {
  const value = "é".repeat(200);
  const found = read(
    {
      sub: "a".repeat(255),
      email: "b".repeat(254),
      groups: [...Array.from({ length: 1_000 }, (_, at) => `group ${at}`), value],
      workspace: "w".repeat(64),
    },
    { roles: { workspaceAdmin: [value] } },
  );
  assert.ok("user" in found);
  const note = { user: found.user, id: "0".repeat(36) };
  const token = createSeal("secret").seal("dashboard session", note, Date.now());
  // Browsers keep cookies of up to 4,096 bytes, with their names and attributes.
  assert.ok(token.length < 3_800, `${token.length}`);
});

test("claims of the userinfo endpoint are added, also inside of a claim, and those of the ID token come first", () => {
  const nested = { ...options, rolesClaim: ["realm_access", "roles"] };
  const token = { sub: "u", realm_access: { verified: true } };
  assert.equal(isComplete(token, nested), false);
  const userinfo = { sub: "other", realm_access: { roles: ["ops"], verified: false } };
  const merged = mergeClaims(token, userinfo);
  assert.deepEqual(merged, { sub: "u", realm_access: { roles: ["ops"], verified: true } });
  assert.equal(isComplete(merged, nested), true);
  // A claim called __proto__ is a claim like any other.
  const hostile = JSON.parse('{"__proto__":{"groups":["ops"]}}') as Record<string, unknown>;
  assert.equal(isComplete(mergeClaims({ sub: "u" }, hostile), options), false);
});
