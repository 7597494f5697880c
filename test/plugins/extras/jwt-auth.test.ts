import assert from "node:assert/strict";
import { test } from "node:test";
import { CompactSign, exportJWK, generateKeyPair, SignJWT, UnsecuredJWT } from "jose";
import {
  manualClock,
  scriptedUpstream,
  testStep,
  type UpstreamReply,
} from "../../../plugins/contracts/testing.ts";
import type { Anonymous } from "../../../plugins/contracts/principal.ts";
import plugin from "../../../plugins/extras/jwt-auth/index.ts";

const { publicKey, privateKey } = await generateKeyPair("ES256", { extractable: true });
const jwk = { ...(await exportJWK(publicKey)), kid: "k1", alg: "ES256" };
/** A careless provider publishes a secret, too. */
const sharedSecret = new TextEncoder().encode("a secret that everyone can read in the keys");
const k = Buffer.from(sharedSecret).toString("base64url");
const octet = { kty: "oct", k, kid: "k3", alg: "HS256", use: "sig" };
const keys: UpstreamReply = { body: { keys: [jwk, octet] } };
const issuer = "https://id.acme.test";
const now = Math.floor(manualClock().now() / 1000);
/** The plan is needed because the accounts of these tests have no workspaces. */
const rules = { issuer, audience: "gateway", plan: "startup" } as const;

const about = { iss: issuer, aud: "gateway", sub: "ada", iat: now, exp: now + 60 };
const claims = { ...about, org_id: "ws_acme", scope: "openid ledger:read" };

function token(changes: object = {}, header: object = {}, key: unknown = privateKey) {
  return new SignJWT({ ...claims, ...changes })
    .setProtectedHeader({ alg: "ES256", kid: "k1", ...header })
    .sign(key as typeof privateKey);
}

/** Returns a token with any text as its claims. */
function signed(text: string): Promise<string> {
  return new CompactSign(Buffer.from(text))
    .setProtectedHeader({ alg: "ES256", kid: "k1" })
    .sign(privateKey);
}

const bearer = (text: string) => ({ headers: { authorization: `Bearer ${text}` } });

test("claims become the capabilities and limits of the caller, and each token is verified once", async () => {
  await using provider = await scriptedUpstream([keys]);
  const clock = manualClock();
  const options = { ...rules, jwks: provider.url, rps: 7, dailyMilliCu: 500 };
  await using tested = await testStep(plugin, { options, clock });
  const request = bearer(await token());
  const { status, slots } = await tested.send(request);
  assert.equal(status, 200);
  assert.ok(slots.principal?.kind === "key");
  const { key, workspace, plan, rps } = slots.principal;
  assert.deepEqual(
    [key.id, key.workspaceId, [...key.capabilities]],
    ["https://id.acme.test#ada", "ws_acme", ["ledger:read"]],
  );
  assert.deepEqual([key.rpsLimit, key.cuLimit24hMilli, rps], [7, 500, 7]);
  assert.deepEqual([workspace.id, plan.name], ["ws_acme", "startup"]);
  const again = await tested.send(request);
  assert.equal(again.slots.principal, slots.principal, "the same object");
  assert.equal(provider.requests.length, 1);

  clock.advance(60_000);
  const expired = (await tested.send(request)).slots.principal;
  assert.deepEqual(expired, { kind: "anonymous", reason: "unauthorized", cause: "unknown" });
});

test("claims of the token replace the plan and the options, up to the limits of the plan", async () => {
  await using provider = await scriptedUpstream([keys]);
  const options = {
    ...rules,
    jwks: provider.url,
    rps: 7,
    scopeClaim: "scp",
    workspaceClaim: "tid",
  };
  await using tested = await testStep(plugin, { options, clock: manualClock() });
  const more = { tid: "ws_acme", scp: ["inference", "x"], plan: "developer", daily_milli_cu: 9 };
  const { principal } = (await tested.send(bearer(await token({ ...more, rps: 300 })))).slots;
  assert.ok(principal?.kind === "key");
  const { key, workspace, plan, rps } = principal;
  assert.deepEqual(
    [plan.name, workspace.plan, key.rpsLimit, rps, key.cuLimit24hMilli],
    ["developer", "developer", 300, plan.rps, 9],
  );
  assert.ok(plan.rps < 300);
  assert.deepEqual([...key.capabilities], ["inference"]);
  const empty = { ...more, plan: null, rps: null, daily_milli_cu: null };
  const other = (await tested.send(bearer(await token(empty)))).slots.principal;
  assert.ok(other?.kind === "key");
  assert.deepEqual(
    [other.plan.name, other.rps, other.key.cuLimit24hMilli],
    ["startup", 7, undefined],
  );
});

test("the same subject at two issuers is two callers", async () => {
  await using provider = await scriptedUpstream([keys]);
  const idAt = async (iss: string): Promise<string | undefined> => {
    const options = { ...rules, issuer: iss, jwks: provider.url };
    await using tested = await testStep(plugin, { options, clock: manualClock() });
    const { principal } = (await tested.send(bearer(await token({ iss })))).slots;
    return principal?.kind === "key" ? principal.key.id : principal?.reason;
  };
  assert.equal(await idAt(issuer), `${issuer}#ada`);
  assert.equal(await idAt("https://id.other.test"), "https://id.other.test#ada");
  // An issuer and a subject cannot be divided in another way.
  await assert.rejects(idAt(`${issuer}#x`), /issuer/);
});

test("an unknown workspace is refused, unless the token or the options name a plan", async () => {
  await using provider = await scriptedUpstream([keys]);
  const { plan: _, ...options } = { ...rules, jwks: provider.url };
  await using tested = await testStep(plugin, { options, clock: manualClock() });
  const planOf = async (changes: object): Promise<string | undefined> => {
    const { principal } = (await tested.send(bearer(await token(changes)))).slots;
    return principal?.kind === "key" ? principal.plan.name : principal?.reason;
  };
  const org_id = "org_9";
  assert.equal(await planOf({ org_id }), "unauthorized");
  assert.equal(await planOf({ org_id, plan: "free" }), "free");
  await tested.reload({ ...options, plan: "developer" });
  assert.equal(await planOf({ org_id }), "developer");
  for (const none of [undefined, "", 9, ["org_9"], { id: "org_9" }]) {
    assert.equal(await planOf({ org_id: none }), "unauthorized");
  }
});

test("while the accounts cannot be read, callers of other workspaces cannot be checked", async () => {
  await using provider = await scriptedUpstream([keys]);
  const options = { ...rules, jwks: provider.url };
  const services = { accounts: { identifyClaims: () => ({ kind: "unavailable" }) as const } };
  await using tested = await testStep(plugin, { options, services, clock: manualClock() });
  assert.equal((await tested.send(bearer(await token()))).status, 503);
});

const other = await generateKeyPair("ES256");
const p384 = (await generateKeyPair("ES384")).privateKey;
const secret = new TextEncoder().encode(JSON.stringify(jwk));
const refused: Readonly<Record<string, () => string | Promise<string>>> = {
  "has expired": () => token({ exp: now - 1 }),
  "never expires": () => token({ exp: undefined }),
  "is not valid yet": () => token({ nbf: now + 60 }),
  "is from another issuer": () => token({ iss: "https://id.other.test" }),
  "has no issuer": () => token({ iss: undefined }),
  "is for another audience": () => token({ aud: "another" }),
  "has no audience": () => token({ aud: undefined }),
  "has no subject": () => token({ sub: undefined }),
  "has several subjects": () => token({ sub: ["ada", "eve"] }),
  "expires never, as a number": () =>
    signed(JSON.stringify({ ...claims, exp: 1 }).replace('"exp":1', '"exp":1e400')),
  "expires at a text": () => token({ exp: "2999-01-01" }),
  "has a workspace that is not a text": () => token({ org_id: { id: "ws_acme" } }),
  "has an unknown plan": () => token({ plan: "royal" }),
  "has a rate that is not a number": () => token({ rps: "7" }),
  "has a credit below 1": () => token({ daily_milli_cu: 0 }),
  "names an unknown key": () => token({}, { kid: "k2" }),
  "was signed by another key": () => token({}, {}, other.privateKey),
  "was changed": async () => {
    const [head, , signature] = (await token()).split(".");
    const body = Buffer.from(JSON.stringify({ ...claims, sub: "eve" })).toString("base64url");
    return `${head}.${body}.${signature}`;
  },
  "is not signed (alg none)": () => new UnsecuredJWT(claims).encode(),
  "is not signed and names a key": async () => {
    const head = Buffer.from('{"alg":"none","kid":"k1"}').toString("base64url");
    return `${head}.${(await token()).split(".")[1]}.`;
  },
  "is signed with the public key as the secret of HS256": () => token({}, { alg: "HS256" }, secret),
  "is signed with a secret that the provider publishes": () =>
    token({}, { alg: "HS256", kid: "k3" }, sharedSecret),
  "contains the key that signed it": async () =>
    token({}, { kid: undefined, jwk: await exportJWK(other.publicKey) }, other.privateKey),
  "names the address of the key that signed it": () =>
    token({}, { jku: "http://127.0.0.1:9/keys", kid: "k2" }, other.privateKey),
  "names an algorithm that its key is not for": () => token({}, { alg: "ES384" }, p384),
  "demands an extension that nobody knows": async () => {
    const [, body, signature] = (await token()).split(".");
    const head = { alg: "ES256", kid: "k1", crit: ["acme"], acme: true };
    return `${Buffer.from(JSON.stringify(head)).toString("base64url")}.${body}.${signature}`;
  },
  "is not JSON": () => "e30.e30.e30",
};

test("tokens that are not valid are refused", async () => {
  await using provider = await scriptedUpstream([keys]);
  const options = { ...rules, jwks: provider.url };
  await using tested = await testStep(plugin, { options, clock: manualClock() });
  for (const [what, made] of Object.entries(refused)) {
    const { status, slots } = await tested.send(bearer(await made()));
    assert.equal(status, 200, "public routes work with such a token");
    const { kind, reason } = slots.principal as Anonymous;
    assert.deepEqual([kind, reason], ["anonymous", "unauthorized"], what);
  }
  assert.equal((await tested.send(bearer(await token()))).slots.principal?.kind, "key");
  assert.equal(
    provider.requests.length,
    1,
    "an unknown key does not make each request ask the provider",
  );
});

test("the log of refusals names what is wrong with a token, and no part of the token", async () => {
  await using provider = await scriptedUpstream([keys]);
  const options = { ...rules, jwks: provider.url };
  await using tested = await testStep(plugin, { options, clock: manualClock() });
  for (const [what, cause] of [
    ["is for another audience", 'token: unexpected "aud" claim value'],
    ["has expired", 'token: "exp" claim timestamp check failed'],
    ["was signed by another key", "token: signature verification failed"],
  ] as const) {
    const { slots } = await tested.send(bearer((await refused[what]?.()) ?? ""));
    assert.equal((slots.principal as Anonymous).cause, cause);
  }
});

test("a header of another form is not a bearer token", async () => {
  await using tested = await testStep(plugin, {
    options: { ...rules, jwks: "http://127.0.0.1:9" },
  });
  const reason = "invalid authorization format";
  const forms = ["", "Bearer", "Bearer ", "bearer a.b.c", "Bearer  a.b.c", "Basic YTpi", "a.b.c"];
  forms.push("Bearer a.b", "Bearer a.b.c d", "Bearer a.b.c.d.e", "Bearer gateway_dev_0");
  for (const authorization of forms) {
    const { principal } = (await tested.send({ headers: { authorization } })).slots;
    assert.deepEqual(principal, { kind: "anonymous", reason, cause: "malformed" }, authorization);
  }
});

test("while the provider gives no valid keys, tokens cannot be checked, and afterwards they can", async () => {
  const replies: Readonly<Record<string, UpstreamReply>> = {
    "an error": { status: 500 },
    "a page": { body: "<html>" },
    "no keys": { body: { keys: "none" } },
    "half an answer": { body: '{"keys":', breaks: true },
    "a redirect": { status: 302, headers: { location: "http://127.0.0.1:9" } },
    "half a key": { body: { keys: [{ ...jwk, x: "AA" }] } },
    "its private key": { body: { keys: [{ ...(await exportJWK(privateKey)), kid: "k1" }] } },
  };
  let reply = keys;
  await using provider = await scriptedUpstream(() => reply);
  for (const [what, broken] of Object.entries(replies)) {
    reply = broken;
    const options = { ...rules, jwks: provider.url };
    await using tested = await testStep(plugin, { options, clock: manualClock() });
    const request = bearer(await token());
    assert.equal((await tested.send(request)).status, 503, what);
    assert.ok(tested.lines.some((line) => line.startsWith("a token could not be checked")));
    // A token that is not valid by itself is refused without the provider.
    const { principal } = (await tested.send(bearer("a.b.c"))).slots;
    const cause = "token: JWS Protected Header is invalid";
    assert.deepEqual(principal, { kind: "anonymous", reason: "unauthorized", cause });
    reply = keys;
    // Half a key is an answer, which is kept for a while.
    if (what === "half a key" || what === "its private key") continue;
    tested.clock.advance(1_000);
    assert.equal((await tested.send(request)).slots.principal?.kind, "key", what);
  }
});

test("while the provider fails, it is asked once per second", async () => {
  await using provider = await scriptedUpstream(() => ({ status: 500 }));
  const options = { ...rules, jwks: provider.url };
  await using tested = await testStep(plugin, { options, clock: manualClock() });
  for (const asked of [1, 2, 3]) {
    for (const kid of ["k1", "k2", "k3"]) {
      assert.equal((await tested.send(bearer(await token({}, { kid })))).status, 503);
    }
    assert.equal(provider.requests.length, asked);
    tested.clock.advance(1_000);
  }
});

test("new keys of the provider are found, and removed ones are no longer used", async (t) => {
  let published: object[] = [jwk];
  await using provider = await scriptedUpstream(() => ({ body: { keys: published } }));
  const options = { ...rules, jwks: provider.url };
  await using tested = await testStep(plugin, { options, clock: manualClock() });
  // The library reads this clock and not that of the gateway.
  t.mock.timers.enable({ apis: ["Date"], now: now * 1000 });
  const pass = (seconds: number): void => {
    t.mock.timers.tick(seconds * 1000);
    tested.clock.advance(seconds * 1000);
  };
  const kindOf = async (text: string): Promise<string | undefined> =>
    (await tested.send(bearer(text))).slots.principal?.kind;
  const later = { exp: now + 9_000 };
  const verified = await token(later);
  assert.equal(await kindOf(verified), "key");

  published = [{ ...(await exportJWK(other.publicKey)), kid: "k2", alg: "ES256" }];
  const ofNewKey = await token(later, { kid: "k2" }, other.privateKey);
  pass(29);
  assert.equal(await kindOf(ofNewKey), "anonymous", "an unknown key is looked up after 30 seconds");
  assert.equal(provider.requests.length, 1);
  pass(1);
  assert.equal(await kindOf(ofNewKey), "key");
  assert.equal(provider.requests.length, 2);
  assert.equal(await kindOf(await token({ ...later, jti: "2" })), "anonymous");
  assert.equal(await kindOf(verified), "key", "a token that was verified before");

  // Without an unknown key, the keys are read again after two minutes.
  published = [jwk];
  pass(120);
  assert.equal(await kindOf(await token({ ...later, jti: "3" })), "key");
  assert.equal(
    await kindOf(await token({ ...later, jti: "4" }, { kid: "k2" }, other.privateKey)),
    "anonymous",
  );
  assert.equal(provider.requests.length, 3);
});

test("a token is refused at most four minutes after its key was withdrawn", async (t) => {
  let published: object[] = [jwk];
  await using provider = await scriptedUpstream(() => ({ body: { keys: published } }));
  const options = { ...rules, jwks: provider.url };
  await using tested = await testStep(plugin, { options, clock: manualClock() });
  t.mock.timers.enable({ apis: ["Date"], now: now * 1000 });
  const pass = (seconds: number): void => {
    t.mock.timers.tick(seconds * 1000);
    tested.clock.advance(seconds * 1000);
  };
  const request = bearer(await token({ exp: now + 9_000 }));
  const principal = async () => (await tested.send(request)).slots.principal;
  const first = await principal();
  assert.ok(first?.kind === "key");
  // Connections that stay open are checked against this time.
  assert.equal(first.key.expiresAt, (now + 9_000) * 1000);
  pass(121);
  assert.equal(await principal(), first, "a token that is verified again is the same caller");

  // The key is withdrawn right after the provider was asked, and the token is sent all the time.
  published = [{ ...(await exportJWK(other.publicKey)), kid: "k2", alg: "ES256" }];
  pass(119);
  assert.equal((await principal())?.kind, "key");
  pass(121);
  assert.equal((await principal())?.kind, "anonymous");
});

test("while the provider is unavailable, known callers are served and others cannot be checked", async () => {
  const provider = await scriptedUpstream([keys]);
  const options = { ...rules, jwks: provider.url };
  await using tested = await testStep(plugin, { options, clock: manualClock() });
  const request = bearer(await token());
  assert.equal((await tested.send(request)).slots.principal?.kind, "key");
  await provider[Symbol.asyncDispose]();
  assert.equal((await tested.send(request)).slots.principal?.kind, "key");
  await tested.reload({ ...options, audience: "gateway2" });
  assert.equal((await tested.send(request)).status, 503);
});

test("requests that arrive together ask the provider once, and a provider that hangs does not hold them", async () => {
  const { promise, resolve } = Promise.withResolvers<UpstreamReply>();
  let isHanging = true;
  await using provider = await scriptedUpstream(() => (isHanging ? promise : keys));
  const options = { ...rules, jwks: provider.url };
  await using tested = await testStep(plugin, { options, clock: manualClock() });
  const request = bearer(await token());
  const answers = Array.from({ length: 20 }, () => tested.send(request));
  while (provider.requests.length === 0) await new Promise(setImmediate);
  tested.clock.advance(10_000);
  const statuses = new Set((await Promise.all(answers)).map(({ status }) => status));
  assert.deepEqual([...statuses], [503]);
  assert.equal(provider.requests.length, 1);
  isHanging = false;
  assert.equal((await tested.send(request)).slots.principal?.kind, "key");
  resolve({ status: 500 });
});
