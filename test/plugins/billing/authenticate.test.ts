import assert from "node:assert/strict";
import { test } from "node:test";
import type { RateLimiterRes } from "rate-limiter-flexible";
import type { AttemptLimiter } from "sluice-gateway/internal/limits";
import type { Caller, Principal, Capability } from "sluice-gateway/services";
import authenticate from "../../../plugins/billing/authenticate/index.ts";
import { FailedKeys } from "../../../plugins/billing/authenticate/failed-keys.ts";
import type { Reply, StepHooks } from "../../../src/plugin.ts";
import { manualClock, type ManualClock } from "../../../src/testing/clock.ts";
import {
  bodyOf,
  fakeAccounts,
  fakeExchange,
  fakeHost,
  keyPrincipal,
  missing,
  unknownKey,
} from "../fakes.ts";
import { withDefaults } from "../with-defaults.ts";
import authorize from "../../../plugins/billing/authorize/index.ts";

interface Setup {
  readonly hooks: StepHooks;
  readonly clock: ManualClock;
  /** Runs one request from the address: authenticates it, then ends it with this code. */
  readonly request: (
    principal: Principal,
    answeredWith?: string,
    address?: string,
  ) => Promise<Reply | void>;
}

async function setUp(
  options: Partial<Parameters<typeof authenticate.start>[0]> = {},
): Promise<Setup> {
  const clock = manualClock();
  let caller: Principal = missing;
  const hooks = await authenticate.start(
    withDefaults(authenticate, options),
    fakeHost({ clock }, { accounts: fakeAccounts({ identify: () => caller }) }),
  );
  return {
    hooks,
    clock,
    async request(principal, code, address = "192.0.2.1") {
      caller = principal;
      const x = fakeExchange({ address, sent: { code } });
      const reply = await hooks.requestHeaders?.(x);
      assert.equal(x.get("principal"), principal, "the slot is set whatever the answer");
      hooks.settled?.(x, "replied");
      // The limiter answers in a later microtask.
      await new Promise(setImmediate);
      return reply;
    },
  };
}

const unauthorized = "GATEWAY_UNAUTHORIZED";

test("a ticket in a subprotocol is redeemed, on the surfaces that accept tickets only", async () => {
  const encoded = (text: string): string => Buffer.from(text).toString("base64url");
  const terms = { keyId: "key_1", model: undefined, origin: "https://app.example" };
  const redeemed: unknown[] = [];
  const accounts = fakeAccounts({
    identify: (header) => (header === undefined ? missing : unknownKey),
    tickets: {
      issue: () => assert.fail("no ticket is issued"),
      redeem: (...given) => {
        redeemed.push(given);
        return Promise.resolve({ principal: keyPrincipal(), terms });
      },
    },
  });
  const hooks = await authenticate.start(
    withDefaults(authenticate, {}),
    fakeHost({}, { accounts }),
  );
  const open = async (surface: string, protocol: string, authorization?: string) => {
    const headers = { authorization, "sec-websocket-protocol": protocol, origin: terms.origin };
    const x = { ...fakeExchange({ headers }), route: { path: "/a", surface } };
    assert.equal(await hooks.requestHeaders?.(x), undefined);
    return { kind: x.get("principal").kind, ticket: x.peek("ticket") };
  };
  const forLedger = `ledger.v1, ledger.auth.${encoded("a ticket")}`;
  const forStream = `confidential.v1, confidential.auth.${encoded("a ticket")}`;
  const accepted = { kind: "key", ticket: terms };
  const refused = { kind: "anonymous", ticket: undefined };
  assert.deepEqual(await open("ledger-ws", forLedger), accepted);
  assert.deepEqual(await open("confidential-stream", forStream), accepted);
  assert.deepEqual(redeemed, [
    ["a ticket", terms.origin, "192.0.2.1"],
    ["a ticket", terms.origin, "192.0.2.1"],
  ]);
  assert.deepEqual(await open("ledger-ws", forStream), refused);
  assert.deepEqual(await open("confidential-stream", forLedger), refused);
  assert.deepEqual(await open("ledger-rpc", forLedger), refused);
  assert.deepEqual(await open("ledger-ws", forLedger, "Bearer x"), refused);
  assert.equal(redeemed.length, 2);
});

test("after many unknown keys an address gets 429 for the next unknown key, and for nothing else", async () => {
  const { request } = await setUp({ failures: 3 });
  for (let i = 0; i < 3; i++) assert.equal(await request(unknownKey, unauthorized), undefined);
  const reply = await request(unknownKey);
  assert.equal(reply?.status, 429);
  assert.deepEqual(bodyOf(reply), {
    error: "too many requests",
    error_code: "GATEWAY_RATE_LIMITED",
  });
  assert.deepEqual(reply?.headers, [
    "content-type",
    "application/json",
    "retry-after",
    "1",
    "ratelimit-policy",
    '"failed-keys";q=3;w=60',
    "ratelimit",
    '"failed-keys";r=0;t=1',
  ]);
  assert.equal(await request(keyPrincipal()), undefined, "a valid key is not blocked");
  assert.equal(await request(missing, unauthorized), undefined, "nor is a request without a key");
});

test("a 400 for an idempotency key counts as a failure, because it reveals as much as a 401", async () => {
  const { request } = await setUp({ failures: 3 });
  const code = "GATEWAY_INVALID_IDEMPOTENCY_KEY";
  for (let i = 0; i < 3; i++) assert.equal(await request(unknownKey, code), undefined);
  assert.equal((await request(unknownKey))?.status, 429);
});

test("a block covers the same IPv6 network but no other addresses", async () => {
  const { request } = await setUp({ failures: 1 });
  for (let i = 0; i < 2; i++) await request(unknownKey, unauthorized, `2001:db8:0:1::${i}`);
  assert.equal((await request(unknownKey, unauthorized, "2001:db8:0:1:ffff::9"))?.status, 429);
  assert.equal(await request(unknownKey, unauthorized, "2001:db8:0:2::1"), undefined);
  assert.equal(await request(unknownKey, unauthorized, "192.0.2.1"), undefined);
});

test("only 401 responses for unknown keys count", async () => {
  const { request } = await setUp({ failures: 1 });
  const malformed: Principal = { kind: "anonymous", reason: "invalid authorization format" };
  const expired: Principal = { kind: "anonymous", reason: "api key has expired" };
  for (let i = 0; i < 5; i++) {
    await request(missing, unauthorized);
    await request(malformed, unauthorized);
    await request(expired, unauthorized);
    await request(unknownKey, "GATEWAY_RATE_LIMITED");
    await request(unknownKey);
    await request(keyPrincipal(), "GATEWAY_PERMISSION_DENIED");
  }
  assert.equal(await request(unknownKey), undefined);
});

test("a caller who cannot be looked up gets 503, which is no failed key, with and without blocking", async () => {
  for (const failures of [0, 1]) {
    const identify = (): Promise<Caller> => Promise.resolve({ kind: "unavailable" });
    const accounts = fakeAccounts({ identify });
    const hooks = await authenticate.start(
      withDefaults(authenticate, { failures }),
      fakeHost({}, { accounts }),
    );
    for (let i = 0; i < 3; i++) {
      const x = fakeExchange({ sent: { code: "GATEWAY_SERVICE_UNAVAILABLE" } });
      const reply = await hooks.requestHeaders?.(x);
      assert.equal(reply?.status, 503);
      assert.equal(x.peek("principal"), undefined);
      hooks.settled?.(x, "replied");
      await new Promise(setImmediate);
    }
  }
});

test("no address is blocked while the store is down", async () => {
  const down: AttemptLimiter = {
    duration: 60,
    consume: () => Promise.reject(new Error("connection refused")),
  };
  const failed = new FailedKeys(down, manualClock(), 64);
  for (let i = 0; i < 10; i++) await failed.count("192.0.2.1");
  assert.equal(failed.blockedMs("192.0.2.1"), 0);
});

test("new addresses above the maximum are not counted until the next window", async () => {
  const clock = manualClock();
  let counted = 0;
  const counting: AttemptLimiter = {
    duration: 60,
    consume: () => {
      counted++;
      // Only this member is read.
      return Promise.resolve({ isFirstInDuration: true } as RateLimiterRes);
    },
  };
  const failed = new FailedKeys(counting, clock, 64);
  for (let i = 0; i < 50_010; i++) await failed.count(`10.${i >> 16}.${(i >> 8) & 255}.${i & 255}`);
  assert.equal(counted, 50_000);
  clock.advance(60_000);
  await failed.count("192.0.2.1");
  assert.equal(counted, 50_001);
});

async function ask(require: "key" | Capability, principal: Principal): Promise<Reply | void> {
  const hooks = await authorize.start({ require }, fakeHost());
  return hooks.requestHeaders?.(fakeExchange({ slots: { principal } }));
}

test("platform:admin is also accepted for workspace:admin, but for no other capability, nor the other way", async () => {
  const admin = keyPrincipal({ capabilities: ["platform:admin"] });
  assert.equal(await ask("workspace:admin", admin), undefined);
  assert.equal(await ask("platform:admin", admin), undefined);
  const others = [
    "ledger:read",
    "ledger:write",
    "platform:read",
    "docs:read",
    "inference",
  ] as const;
  for (const other of others) assert.equal((await ask(other, admin))?.status, 403, other);
  const ofWorkspace = keyPrincipal({ capabilities: ["workspace:admin"] });
  assert.equal((await ask("platform:admin", ofWorkspace))?.status, 403);
});
