/** Sign-in at an OpenID provider: the good paths, roles, and what ends a session. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { ask, pipeline, signIn } from "../gateway.ts";
import {
  assertRefused,
  begin,
  begun,
  enter,
  open,
  section,
  sessionIn,
  startBoth,
  startWithOidc,
  tryToSignIn,
} from "./fixture.ts";
import { clientSecret, startScriptedProvider } from "./scripted-provider.ts";

const admin = { sub: "admin-1", email: "ops@example.org", groups: ["ops", "all"] };
const viewer = { sub: "viewer-1", groups: ["staff"] };

test("a user signs in at the provider, changes something, and signs out", async (t) => {
  const { provider, gateway } = await startBoth(t);
  const { body: out } = await ask(gateway, "session");
  assert.deepEqual(out, { signed_in: false, oidc: { name: "OpenID" } });

  const begunAs = await begin(gateway);
  const [flowCookie = ""] = begunAs.headers.getSetCookie();
  assert.match(
    flowCookie,
    /^sluice_sign_in_\d+=\S+; Path=\/dashboard\/oidc; Max-Age=600; HttpOnly; SameSite=Lax$/,
  );
  const sent = new URL(begunAs.body.url);
  assert.equal(sent.origin + sent.pathname, `${provider.issuer}/authorize`);
  const {
    state,
    nonce,
    code_challenge: challenge,
    ...fixed
  } = Object.fromEntries(sent.searchParams);
  assert.deepEqual(fixed, {
    client_id: "sluice",
    response_type: "code",
    redirect_uri: `${gateway.adminUrl}/dashboard/oidc/callback`,
    scope: "openid profile email",
    code_challenge_method: "S256",
  });
  assert.equal(new Set([state, nonce, challenge]).size, 3);
  // Browsers can read a sealed cookie, so it must not contain the values that tie the answer to this browser.
  const readable = Buffer.from(flowCookie.split(/[=.]/)[1] ?? "", "base64url").toString();
  assert.ok(!readable.includes(state ?? "-") && !readable.includes(nonce ?? "-"));

  const back = provider.confirm(begunAs.body.url, { claims: admin });
  const returned = await open(back, flowCookie.split(";", 1)[0]);
  assert.deepEqual([returned.status, returned.location], [303, "/dashboard"]);
  assert.match(
    returned.cookies.join("\n"),
    /^sluice_sign_in_\d+=; Path=\/dashboard\/oidc; Max-Age=0;/m,
  );
  assert.match(
    returned.cookies.join("\n"),
    /^sluice_dashboard_\d+=\S+; Path=\/dashboard; Max-Age=28800; HttpOnly; SameSite=Strict$/m,
  );
  const cookie = sessionIn(returned);
  const { body } = await ask(gateway, "session", { cookie });
  const { expires_at: _, version: __, capabilities, ...session } = body;
  assert.deepEqual(session, {
    signed_in: true,
    subject: "admin-1",
    email: "ops@example.org",
    role: "admin",
    scope: "platform",
    may_change: true,
    environment: "dev",
  });
  assert.ok(capabilities.includes("platform:admin"));

  const made = await ask(gateway, "workspaces", { cookie, body: { name: "new", plan: "free" } });
  assert.equal(made.status, 201);
  const { changes } = (await ask(gateway, "changes", { cookie })).body;
  assert.equal(changes[0].actor, "oidc:admin-1 (ops@example.org)");
  assert.equal(changes[0].request_id, made.headers.get("x-request-id"));

  const left = await ask(gateway, "session", { method: "DELETE", cookie });
  assert.equal(left.status, 204);
  assert.equal((await ask(gateway, "live", { cookie })).status, 401);
  const log = gateway.lines.join("\n");
  assert.match(log, /dashboard: signed in.*admin-1/);
  for (const text of [clientSecret, back.searchParams.get("code") ?? "-", state ?? "-"]) {
    assert.ok(!log.includes(text), "no secret is logged");
  }
});

test("claims that the ID token lacks are read from the userinfo endpoint, of the same subject only", async (t) => {
  const { provider, gateway } = await startBoth(t);
  const claims = { sub: "u", groups: undefined };
  const more = { groups: ["ops"], email: "u@example.org" };
  const good = await tryToSignIn(gateway, provider, { claims, userinfo: { sub: "u", ...more } });
  assert.equal(good.status, 303, good.text);
  const { body } = await ask(gateway, "session", { cookie: sessionIn(good) });
  assert.deepEqual([body.role, body.email], ["admin", "u@example.org"]);
  const other = await tryToSignIn(gateway, provider, { claims, userinfo: { sub: "v", ...more } });
  assertRefused(other, { status: 401, code: "GATEWAY_UNAUTHORIZED", message: /did not confirm/ });
});

test("a provider that accepts the secret only in the form gets it there", async () => {
  await using provider = await startScriptedProvider();
  provider.document = { token_endpoint_auth_methods_supported: ["client_secret_post"] };
  await using gateway = await startWithOidc(provider.issuer);
  assert.match(await enter(gateway, provider, admin), /^sluice_dashboard_/);
});

test("behind a proxy that terminates TLS, the address and the cookies are those of https", async (t) => {
  const { provider, gateway } = await startBoth(t);
  const origin = gateway.adminUrl.replace("http:", "https:");
  const { body, headers } = await ask(gateway, "session/oidc", {
    method: "POST",
    headers: { origin },
  });
  const [flow = ""] = headers.getSetCookie();
  // Browsers accept a cookie with this prefix only with `Secure`, with `Path=/` and without `Domain`.
  assert.match(
    flow,
    /^__Host-sluice_sign_in_\d+=\S+; Path=\/; Max-Age=600; HttpOnly; SameSite=Lax; Secure$/,
  );
  const back = provider.confirm(body.url, { claims: admin });
  assert.equal(back.origin, origin);
  back.protocol = "http:";
  const cookie = flow.split(";", 1)[0] ?? "";
  // A subdomain can set a cookie without the prefix, with the sealed sign-in of another browser.
  assertRefused(await open(back, cookie.replace("__Host-", "")), {
    status: 400,
    code: "GATEWAY_INVALID_PARAMS",
    message: /sign in again/,
  });
  // Such a cookie does not disturb the own sign-in.
  const { status, cookies } = await open(back, `${cookie.replace("__Host-", "")}; ${cookie}`);
  assert.equal(status, 303);
  assert.equal(cookies.length, 2);
  assert.match(cookies.join("\n"), /^__Host-sluice_sign_in_\d+=; Path=\/; Max-Age=0;/m);
  for (const each of cookies) assert.match(each, /; Secure$/);
});

test("the sign-in of a page without TLS is not accepted from a cookie with the prefix", async (t) => {
  const { provider, gateway } = await startBoth(t);
  const { url, cookie } = await begun(gateway);
  const back = provider.confirm(url, { claims: admin });
  assertRefused(await open(back, `__Host-${cookie}`), {
    status: 400,
    code: "GATEWAY_INVALID_PARAMS",
    message: /sign in again/,
  });
  assert.equal((await open(back, cookie)).status, 303);
});

test("a new sign-in ends the session that the browser had", async (t) => {
  const { provider, gateway } = await startBoth(t);
  const statuses = async (...cookies: string[]): Promise<number[]> => {
    const asked = cookies.map((cookie) => ask(gateway, "live", { cookie }));
    return (await Promise.all(asked)).map(({ status }) => status);
  };
  const first = await signIn(gateway, gateway.key);
  const begunAs = await ask(gateway, "session/oidc", { method: "POST", cookie: first });
  const flow = (begunAs.headers.getSetCookie()[0] ?? "").split(";", 1)[0];
  // A sign-in that is refused ends no session.
  const other = await ask(gateway, "session/oidc", { method: "POST", cookie: first });
  const refused = await open(
    provider.confirm(other.body.url, { claims: { sub: "nobody" } }),
    (other.headers.getSetCookie()[0] ?? "").split(";", 1)[0],
  );
  assert.equal(refused.status, 403);
  assert.deepEqual(await statuses(first), [200]);
  // The browser does not send the cookie of the session with this request.
  const second = sessionIn(await open(provider.confirm(begunAs.body.url, { claims: admin }), flow));
  assert.deepEqual(await statuses(first, second), [401, 200]);
  const entered = await ask(gateway, "session", { body: { key: gateway.key }, cookie: second });
  const [third = "", cancelled = ""] = entered.headers.getSetCookie();
  const cookie = third.split(";", 1)[0] ?? "";
  assert.deepEqual(await statuses(first, second, cookie), [401, 401, 200]);
  // A sign-in at the provider in another tab would not end the session that has just begun, so it is forgotten.
  assert.match(cancelled, /^sluice_sign_in_\d+=; Path=\/dashboard\/oidc; Max-Age=0;/);
});

test("a user without a role is refused, with the name of the claim", async (t) => {
  const { provider, gateway } = await startBoth(t, {
    options: `rolesClaim: [realm_access, "<b>"], roles: { admin: [ops] }`,
  });
  const wanted = {
    status: 403,
    code: "GATEWAY_PERMISSION_DENIED",
    message: /its claim &quot;realm_access\.&lt;b&gt;&quot; has none of the values/,
  };
  for (const claims of [{}, { groups: ["ops"] }, { realm_access: { "<b>": ["other", 1, null] } }]) {
    assertRefused(await tryToSignIn(gateway, provider, { claims }), wanted);
  }
  await enter(gateway, provider, { realm_access: { "<b>": "ops" } });
});

test("a viewer reads everything and changes nothing", async (t) => {
  const { provider, gateway } = await startBoth(t);
  const cookie = await enter(gateway, provider, viewer);
  const { body } = await ask(gateway, "session", { cookie });
  assert.deepEqual([body.role, body.scope, body.may_change], ["viewer", "platform", false]);
  assert.deepEqual(body.capabilities, []);
  for (const path of `
    live keys workspaces changes health routes pipeline-file stores playground`
    .trim()
    .split(/\s+/)) {
    assert.equal((await ask(gateway, path, { cookie })).status, 200, path);
  }
  const { keys } = (await ask(gateway, "keys", { cookie })).body;
  assert.deepEqual(
    new Set(keys.map((key: { manageable: boolean }) => key.manageable)),
    new Set([false]),
  );
  const before = (await ask(gateway, "changes", { cookie })).body;
  const { keyId, workspaceId, key } = gateway;
  const changes: readonly (readonly [string, object])[] = [
    ["keys", { workspace_id: workspaceId, name: "x", capabilities: ["ledger:read"] }],
    [`keys/${keyId}/edit`, { name: "x" }],
    [`keys/${keyId}/rotate`, { overlap_seconds: 0 }],
    [`keys/${keyId}/revoke`, {}],
    ["workspaces", { name: "x", plan: "free" }],
    [`workspaces/${workspaceId}/settings`, { plan: "free" }],
    [`workspaces/${workspaceId}/downgrade`, { plan: "free" }],
    [`workspaces/${workspaceId}/cancel-downgrade`, {}],
    [`workspaces/${workspaceId}/purchase`, { amount_cu_milli: 1 }],
    ["playground", { kind: "models", key }],
  ];
  for (const [path, wanted] of changes) {
    const { status, body: answer } = await ask(gateway, path, { cookie, body: wanted });
    assert.equal(status, 403, path);
    assert.equal(answer.error, "your role may read everything, but change nothing");
  }
  assert.deepEqual((await ask(gateway, "changes", { cookie })).body, before);
});

test("the administrator of a workspace sees and changes only it", async (t) => {
  const { provider, gateway } = await startBoth(t, {
    options: "roles: { workspaceAdmin: [customers] }, workspaceClaim: tenant",
  });
  const { tenant } = gateway;
  const groups = ["customers"];
  const cookie = await enter(gateway, provider, { sub: "t", groups, tenant: tenant.workspaceId });
  const { body } = await ask(gateway, "session", { cookie });
  assert.deepEqual([body.role, body.scope], ["workspaceAdmin", "workspace"]);
  assert.equal(body.workspace.id, tenant.workspaceId);
  assert.ok(!body.capabilities.includes("platform:admin"));
  const { keys } = (await ask(gateway, "keys", { cookie })).body;
  assert.deepEqual(
    keys.map((key: { id: string }) => key.id),
    [tenant.keyId],
  );
  assert.equal((await ask(gateway, "health", { cookie })).status, 403);
  const other = await ask(gateway, `keys/${gateway.keyId}/revoke`, { cookie, body: {} });
  assert.equal(other.status, 404);
  const own = await ask(gateway, `keys/${tenant.keyId}/revoke`, { cookie, body: {} });
  assert.equal(own.status, 200);
  const { changes } = (await ask(gateway, "changes", { cookie })).body;
  assert.equal(changes[0].actor, "oidc:t");

  const denied = { status: 403, code: "GATEWAY_PERMISSION_DENIED" };
  for (const wrong of [undefined, "", ["a", "b"], 1, "../x", { id: tenant.workspaceId }]) {
    const claims = { groups, tenant: wrong };
    const message = /needs the id of one workspace in the claim &quot;tenant&quot;/;
    assertRefused(await tryToSignIn(gateway, provider, { claims }), { ...denied, message });
  }
  const claims = { groups, tenant: "ws_none" };
  const message = /The workspace ws_none does not exist/;
  assertRefused(await tryToSignIn(gateway, provider, { claims }), { ...denied, message });
});

test("a session ends at once if a reload takes the role away, or the provider, and no other reload ends it", async (t) => {
  const { provider, gateway } = await startBoth(t);
  const first = await enter(gateway, provider, admin);
  const second = await enter(gateway, provider, viewer);
  const byKey = await signIn(gateway, gateway.key);
  const statuses = async (): Promise<number[]> => {
    const asked = [first, second, byKey].map((cookie) => ask(gateway, "live", { cookie }));
    return (await Promise.all(asked)).map(({ status }) => status);
  };
  const reload = async (more: string, edited = pipeline): Promise<void> => {
    await gateway.write(edited + more);
    assert.deepEqual(await gateway.gateway.reloader.reload("test"), []);
  };
  assert.deepEqual(await statuses(), [200, 200, 200]);
  await reload(section(provider.issuer), pipeline.replace("path: /free", "path: /gratis"));
  assert.deepEqual(await statuses(), [200, 200, 200]);
  await reload(section(provider.issuer, "name: Other, roles: { admin: [ops], viewer: [guests] }"));
  assert.deepEqual(await statuses(), [200, 401, 200]);
  await reload(section(provider.issuer).replace("clientId: sluice", "clientId: other"));
  assert.deepEqual(await statuses(), [401, 401, 200]);
  await reload(
    section(provider.issuer, "rolesClaim: nickname, roles: { admin: [ops], viewer: [staff] }"),
  );
  assert.deepEqual(await statuses(), [401, 401, 200]);
  await reload(section(provider.issuer));
  assert.deepEqual(await statuses(), [200, 200, 200]);
  // A sign-in that has begun at one provider is not finished at another.
  const { url, cookie } = await begun(gateway);
  await reload("");
  assert.deepEqual(await statuses(), [401, 401, 200]);
  assert.equal((await begin(gateway)).status, 404);
  assert.equal((await open(provider.confirm(url, { claims: admin }), cookie)).status, 404);
  await reload(section("http://127.0.0.1:1"));
  const late = await open(provider.confirm(url, { claims: admin }), cookie);
  assertRefused(late, { status: 400, code: "GATEWAY_INVALID_PARAMS", message: /sign in again/ });
});

test("another gateway with the same secret can finish the sign-in", async () => {
  await using provider = await startScriptedProvider();
  const env = { GATEWAY_SECRET: "a secret that several gateways have" };
  await using one = await startWithOidc(provider.issuer, { env });
  await using two = await startWithOidc(provider.issuer, { env });
  const { url, cookie } = await begun(one);
  const back = provider.confirm(url, { claims: admin });
  const [from, to] = [new URL(one.adminUrl).port, new URL(two.adminUrl).port];
  back.port = to;
  const returned = await open(back, cookie.replace(from, to));
  assert.equal(returned.status, 303, returned.text);
  assert.equal((await ask(two, "live", { cookie: sessionIn(returned) })).status, 200);
});
