/** Tests of the parser of claims, which maps them to users and roles. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  isComplete,
  mergeClaims,
  userOf,
} from "../../../../../plugins/dashboard/dashboard/oidc/user.ts";
import type { OidcOptions } from "../../../../../plugins/dashboard/dashboard/oidc/user.ts";
import { createSeal } from "../../../../../src/store/seal.ts";

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
