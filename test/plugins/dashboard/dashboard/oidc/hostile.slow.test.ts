/** Sign-in at an OpenID provider that is away, slow or hostile, and answers that belong to another sign-in. */
import assert from "node:assert/strict";
import type { ServerResponse } from "node:http";
import { test } from "node:test";
import { SignJWT, UnsecuredJWT, generateKeyPair, type CryptoKey, type JWTPayload } from "jose";
import { answerMs } from "../../../../../plugins/dashboard/dashboard/oidc/provider-fetch.ts";
import { manualClock } from "../../../../../src/testing/clock.ts";
import { ask, signIn, type Watched } from "../gateway.ts";
import {
  assertRefused,
  begin,
  begun,
  open,
  startBoth,
  startWithOidc,
  tryToSignIn,
} from "./fixture.ts";
import {
  clientId,
  clientSecret,
  discoveryPath,
  sendJson,
  signed,
  startScriptedProvider,
  type ScriptedProvider,
} from "./scripted-provider.ts";

const claims = { sub: "u", groups: ["ops"] };
const notOpen = {
  status: 400,
  code: "GATEWAY_INVALID_PARAMS",
  message: /has expired, has already ended, or was begun in another browser/,
};
const unconfirmed = { status: 401, code: "GATEWAY_UNAUTHORIZED", message: /did not confirm/ };
const away = { status: 503, code: "GATEWAY_SERVICE_UNAVAILABLE", message: /cannot be reached/ };

/** Runs cases with few gateways. A gateway allows ten attempts per minute. */
async function withEach<Case>(
  cases: readonly Case[],
  run: (gateway: Watched, each: Case, provider: ScriptedProvider) => Promise<void>,
): Promise<void> {
  await using provider = await startScriptedProvider();
  for (let at = 0; at < cases.length; at += 10) {
    const clock = manualClock(Date.now());
    await using gateway = await startWithOidc(provider.issuer, { clock });
    for (const each of cases.slice(at, at + 10)) {
      // The discovery document is asked for again.
      clock.advance(60_000);
      await run(gateway, each, provider);
    }
  }
}

async function refusedSignIns({ adminUrl }: Watched): Promise<Record<string, number>> {
  const text = await (await fetch(`${adminUrl}/metrics`)).text();
  const form = /^sluice_dashboard_sign_ins_refused_total\{by="(\w+)",code="(\w+)"\} (\d+)$/gm;
  const found = [...text.matchAll(form)];
  return Object.fromEntries(found.map(([, by, code, count]) => [`${by} ${code}`, Number(count)]));
}

async function assertAway(gateway: Watched): Promise<void> {
  const { status, body, headers } = await begin(gateway);
  assert.equal(status, 503);
  assert.equal(body.error_code, "GATEWAY_SERVICE_UNAVAILABLE");
  assert.match(body.error, /^OpenID cannot be reached or gives no valid answer/);
  assert.deepEqual(headers.getSetCookie(), []);
}

test("an answer with another state, without the cookie, or with that of another browser is refused", async (t) => {
  const { provider, gateway } = await startBoth(t);
  const own = await begun(gateway);
  const other = await begun(gateway);
  const back = provider.confirm(own.url, { claims });
  const withState = (edit: (query: URLSearchParams) => void): URL => {
    const changed = new URL(back);
    edit(changed.searchParams);
    return changed;
  };
  const state = back.searchParams.get("state") ?? "";
  const attempts: readonly (readonly [URL, string | undefined])[] = [
    [back, undefined],
    [back, other.cookie],
    [back, `${own.cookie}; ${other.cookie}`],
    [back, `${own.cookie}x`],
    [withState((query) => query.delete("state")), own.cookie],
    [withState((query) => query.set("state", "x")), own.cookie],
    [withState((query) => query.append("state", state)), own.cookie],
  ];
  for (const [url, cookie] of attempts) assertRefused(await open(url, cookie), notOpen);
  assert.ok(!provider.asked.includes("/token"), "the code is not redeemed");
  // These attempts have not used the sign-in up.
  assert.equal((await open(back, own.cookie)).status, 303);
});

test("an answer is used once, even with a new code, and expires after ten minutes", async (t) => {
  const clock = manualClock(Date.now());
  const { provider, gateway } = await startBoth(t, { clock });
  const { url, cookie } = await begun(gateway);
  assert.equal((await open(provider.confirm(url, { claims }), cookie)).status, 303);
  const redeemed = provider.asked.filter((path) => path === "/token").length;
  assertRefused(await open(provider.confirm(url, { claims }), cookie), notOpen);
  assert.equal(provider.asked.filter((path) => path === "/token").length, redeemed);
  // A sign-in that fails is used up, too.
  const failed = await begun(gateway);
  const wrong = provider.confirm(failed.url, { claims: { ...claims, nonce: "x" } });
  assertRefused(await open(wrong, failed.cookie), unconfirmed);
  assertRefused(await open(provider.confirm(failed.url, { claims }), failed.cookie), notOpen);
  const late = await begun(gateway);
  clock.advance(600_000);
  assertRefused(await open(provider.confirm(late.url, { claims }), late.cookie), notOpen);
});

test("an ID token that is not for this sign-in, or not of this provider, is refused", async () => {
  const { privateKey: foreign } = await generateKeyPair("RS256");
  const now = Math.floor(Date.now() / 1000);
  const cases: Readonly<
    Record<string, JWTPayload | ((own: JWTPayload, key: CryptoKey) => unknown)>
  > = {
    "another nonce": { nonce: "x" },
    "no nonce": { nonce: undefined },
    "a list as nonce": { nonce: ["x"] },
    expired: { exp: now - 60 },
    "no expiry": { exp: undefined },
    "issued in the future": { iat: now + 3600, nbf: now + 3600 },
    "another audience": { aud: "other" },
    "several audiences": { aud: [clientId, "other"] },
    "another issuer": { iss: "https://evil.example" },
    "no subject": { sub: undefined },
    "another key": (own) => signed(own, foreign),
    "an unknown key": (own) => signed(own, foreign, "two"),
    "the secret as key": (own) =>
      new SignJWT(own)
        .setProtectedHeader({ alg: "HS256" })
        .sign(Buffer.from(clientSecret.repeat(2))),
    "no signature": (own) => new UnsecuredJWT(own).encode(),
    "no token": () => undefined,
    "not a token": () => "a.b.c",
    "an object": () => ({}),
  };
  await withEach(Object.entries(cases), async (gateway, [name, wrong], provider) => {
    const returned = await tryToSignIn(
      gateway,
      provider,
      typeof wrong === "function"
        ? { claims, idToken: ({ claims: own, key }) => wrong({ ...own, ...claims }, key) }
        : { claims: { ...claims, ...wrong } },
    );
    assert.equal(returned.status, 401, `${name}: ${returned.text}`);
    assertRefused(returned, unconfirmed);
  });
});

test("an answer of another provider is refused before its code is redeemed (mix-up)", async (t) => {
  const { provider, gateway } = await startBoth(t);
  for (const issuer of ["https://evil.example", undefined]) {
    const { url, cookie } = await begun(gateway);
    const back = provider.confirm(url, { claims });
    if (issuer === undefined) back.searchParams.delete("iss");
    else back.searchParams.set("iss", issuer);
    assertRefused(await open(back, cookie), unconfirmed);
  }
  assert.ok(!provider.asked.includes("/token"));
});

test("a refusal of the provider is reported in words of the gateway's own", async (t) => {
  const { provider, gateway } = await startBoth(t);
  const { url, cookie } = await begun(gateway);
  const back = provider.confirm(url);
  back.searchParams.delete("code");
  back.searchParams.set("error", "access_denied");
  back.searchParams.set("error_description", "<script>hostile</script>");
  const refused = await open(back, cookie);
  assertRefused(refused, unconfirmed);
  assert.ok(!refused.text.includes("hostile"));
  assert.ok(gateway.lines.some((line) => /sign-in refused.*access_denied/.test(line)));
  const second = await begun(gateway);
  const forged = provider.confirm(second.url);
  forged.searchParams.set("code", "unknown");
  const unknown = await open(forged, second.cookie);
  assertRefused(unknown, unconfirmed);
  assert.ok(!`${unknown.text}${gateway.lines.join("")}`.includes("hostile text"));
});

test("while the provider is away, the gateway starts, keys sign in, and the next attempt asks again", async (t) => {
  await using none = await startWithOidc("http://127.0.0.1:1");
  await assertAway(none);
  assert.ok(none.lines.some((line) => /OpenID provider cannot be used.*ECONNREFUSED/.test(line)));
  assert.equal((await ask(none, "live", { cookie: await signIn(none, none.key) })).status, 200);

  const { provider, gateway } = await startBoth(t);
  provider.answers.set(discoveryPath, (_, response) => response.destroy());
  await assertAway(gateway);
  provider.answers.clear();
  assert.equal((await tryToSignIn(gateway, provider, { claims })).status, 303);
});

test("a provider that goes away during a sign-in is reported, and its document is asked for again", async (t) => {
  const clock = manualClock(Date.now());
  const { provider, gateway } = await startBoth(t, { clock });
  for (const path of ["/token", "/jwks", "/userinfo"]) {
    provider.answers.set(path, (_, response) => response.destroy());
    const confirmed = path === "/userinfo" ? { claims: { sub: "u" } } : { claims };
    const returned = await tryToSignIn(gateway, provider, confirmed);
    assertRefused(returned, away);
    provider.answers.delete(path);
  }
  const asked = (): number => provider.asked.filter((path) => path === discoveryPath).length;
  assert.equal(asked(), 1);
  clock.advance(60_000);
  assert.equal((await tryToSignIn(gateway, provider, { claims })).status, 303);
  assert.equal(asked(), 2);
});

test("a provider that does not answer in time is away", async (t) => {
  const clock = manualClock(Date.now());
  const { provider, gateway } = await startBoth(t, { clock });
  const starts = [() => {}, (response: ServerResponse) => void response.writeHead(200).write("{")];
  for (const start of starts) {
    const arrived = Promise.withResolvers<void>();
    provider.answers.set(discoveryPath, (_, response) => {
      start(response);
      arrived.resolve();
    });
    const refused = assertAway(gateway);
    await arrived.promise;
    clock.advance(answerMs);
    await refused;
  }
  assert.ok(gateway.lines.some((line) => line.includes("no answer in time")));
});

test("documents of the provider that are wrong are refused, and lead the browser nowhere", async () => {
  const documents: readonly object[] = [
    { issuer: "https://evil.example" },
    { issuer: "http://127.0.0.1:1" },
    { issuer: undefined },
    { issuer: { toString: 1 } },
    { authorization_endpoint: undefined },
    { authorization_endpoint: "javascript:alert(1)" },
    { authorization_endpoint: "javascript://127.0.0.1/%0aalert(1)" },
    { authorization_endpoint: "http://evil.example/authorize" },
    { authorization_endpoint: "not an address" },
    { authorization_endpoint: 5 },
  ];
  await withEach(documents, async (gateway, document, provider) => {
    provider.document = document;
    await assertAway(gateway);
  });
  const answers: readonly ((response: ServerResponse, document: object) => void)[] = [
    (response) => sendJson(response, 500, {}),
    (response) => sendJson(response, 404, {}),
    (response) => sendJson(response, 200, []),
    (response) => sendJson(response, 200, null),
    (response) => response.writeHead(200, { "content-type": "text/html" }).end("<p>"),
    (response) => response.writeHead(200, { "content-type": "application/json" }).end("{"),
    (response) => response.writeHead(204).end(),
    (response) => response.writeHead(302, { location: "/jwks" }).end(),
    (response, document) => sendJson(response, 200, { ...document, x: "x".repeat(300_000) }),
  ];
  await withEach(answers, async (gateway, answer, provider) => {
    provider.answers.set(discoveryPath, (_, response) => answer(response, provider.standard));
    await assertAway(gateway);
    assert.ok(!provider.asked.includes("/jwks"), "redirects are not followed");
  });
});

test("the secret is not sent in plain text to another host", async () => {
  const members = ["token_endpoint", "jwks_uri", "userinfo_endpoint"] as const;
  await withEach(members, async (gateway, member, provider) => {
    const { pathname, port } = new URL(provider.standard[member]);
    // The same server under another name.
    provider.document = { [member]: `http://localhost:${port}${pathname}` };
    provider.asked.length = 0;
    assertRefused(await tryToSignIn(gateway, provider, { claims: { sub: "u" } }), away);
    assert.ok(!provider.asked.includes(pathname));
  });
});

test("an address may begin ten sign-ins a minute, together with those by key", async (t) => {
  const { gateway } = await startBoth(t);
  for (let i = 0; i < 5; i++) {
    assert.equal((await begin(gateway)).status, 200);
    assert.equal((await ask(gateway, "session", { body: { key: "guess" } })).status, 401);
  }
  const { status, body } = await begin(gateway);
  assert.deepEqual([status, body.error_code], [429, "GATEWAY_RATE_LIMITED"]);
  assert.equal((await begin(gateway)).status, 429);
  const limited = gateway.lines.filter((line) => line.includes("too many attempts to sign in"));
  assert.equal(limited.length, 1, "only the first one is logged");
  assert.deepEqual(await refusedSignIns(gateway), {
    "key GATEWAY_UNAUTHORIZED": 5,
    "oidc GATEWAY_RATE_LIMITED": 2,
  });
});

test("answers without a sign-in are logged, counted and limited, and do not prevent a sign-in", async (t) => {
  const { provider, gateway } = await startBoth(t);
  const { url, cookie } = await begun(gateway);
  const back = provider.confirm(url, { claims });
  for (let i = 0; i < 10; i++) assertRefused(await open(back, undefined), notOpen);
  const limited = { status: 429, code: "GATEWAY_RATE_LIMITED", message: /wait a minute/ };
  for (let i = 0; i < 3; i++) assertRefused(await open(back, undefined), limited);
  const logged = (text: string): number =>
    gateway.lines.filter((line) => line.includes(text)).length;
  assert.equal(logged("dashboard: sign-in refused"), 10);
  assert.equal(logged("too many attempts to sign in"), 1);
  assert.deepEqual(await refusedSignIns(gateway), {
    "oidc GATEWAY_INVALID_PARAMS": 10,
    "oidc GATEWAY_RATE_LIMITED": 3,
  });
  assert.equal((await open(back, cookie)).status, 303);
  assert.equal((await ask(gateway, "session", { body: { key: gateway.key } })).status, 200);
});

test("another site cannot begin a sign-in", async (t) => {
  const { provider, gateway } = await startBoth(t);
  for (const headers of [
    { "x-sluice-dashboard": undefined },
    { origin: undefined },
    { origin: "http://evil.example" },
  ]) {
    const { status } = await ask(gateway, "session/oidc", { method: "POST", headers });
    assert.equal(status, 403);
  }
  assert.deepEqual(provider.asked, []);
});
