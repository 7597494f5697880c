/** Tests of the steps `authenticate` and `authorize`, started alone, and of the algorithm that counts failed keys. */
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import type { RateLimiterRes } from "rate-limiter-flexible";
import type { AttemptLimiter } from "sluice-gateway/internal/limits";
import { refuse } from "sluice-gateway/plugin";
import type { Caller, Principal } from "sluice-gateway/services";
import { manualClock, testStep, type TestAnswer } from "sluice-gateway/testing";
import authenticate from "../../../plugins/billing/authenticate/index.ts";
import { FailedKeys } from "../../../plugins/billing/authenticate/failed-keys.ts";
import authorize from "../../../plugins/billing/authorize/index.ts";
import { fakeAccounts, keyPrincipal, missing, unknownKey } from "../fakes.ts";

type Code = Parameters<typeof refuse>[0];

/** Returns a function that sends a request of this caller, which the surface refuses with this code. */
async function setUp(t: TestContext, failures: number) {
  let caller: Caller = missing;
  let code: Code | undefined;
  const tested = await testStep(authenticate, {
    options: { failures },
    services: { accounts: fakeAccounts({ identify: () => caller }) },
    surface: () => (code === undefined ? { status: 200 } : refuse(code)),
  });
  t.after(() => tested[Symbol.asyncDispose]());
  return async (of: Caller, refusal?: Code): Promise<TestAnswer> => {
    [caller, code] = [of, refusal];
    const answer = await tested.send();
    const principal = of.kind === "unavailable" ? undefined : of;
    assert.equal(answer.slots.principal, principal, "the slot is set whatever the answer");
    // The limiter answers in a later microtask.
    await new Promise(setImmediate);
    return answer;
  };
}

const unauthorized = "GATEWAY_UNAUTHORIZED";

test("after many unknown keys an address gets 429 for the next unknown key, and for nothing else", async (t) => {
  // A 400 for an idempotency key reveals as much as a 401.
  for (const code of [unauthorized, "GATEWAY_INVALID_IDEMPOTENCY_KEY"] as const) {
    const request = await setUp(t, 3);
    for (let i = 0; i < 3; i++) assert.equal((await request(unknownKey, code)).code, code);
    const { status, headers, body } = await request(unknownKey);
    assert.equal(status, 429);
    assert.deepEqual(JSON.parse(body), {
      error: "too many requests",
      error_code: "GATEWAY_RATE_LIMITED",
    });
    assert.equal(headers["retry-after"], "1");
    assert.equal(headers["ratelimit-policy"], '"failed-keys";q=3;w=60');
    assert.equal(headers["ratelimit"], '"failed-keys";r=0;t=1');
    assert.equal((await request(keyPrincipal())).status, 200, "a valid key is not blocked");
    const withoutKey = await request(missing, unauthorized);
    assert.equal(withoutKey.code, unauthorized, "nor is a request without a key");
  }
});

test("only 401 responses for unknown keys count", async (t) => {
  const request = await setUp(t, 1);
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
  assert.equal((await request(unknownKey)).status, 200);
});

test("a caller who cannot be looked up gets 503, which is no failed key, with and without blocking", async (t) => {
  for (const failures of [0, 1]) {
    const request = await setUp(t, failures);
    for (let i = 0; i < 3; i++) {
      assert.equal((await request({ kind: "unavailable" })).code, "GATEWAY_SERVICE_UNAVAILABLE");
    }
    assert.equal((await request(unknownKey)).status, 200);
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

test("platform:admin is also accepted for workspace:admin, but for no other capability, nor the other way", async () => {
  const slots = { principal: keyPrincipal({ capabilities: ["platform:admin"] }) };
  await using tested = await testStep(authorize, { options: { require: "key" }, slots });
  for (const [required, status] of [
    ["workspace:admin", 200],
    ["platform:admin", 200],
    ["ledger:read", 403],
    ["ledger:write", 403],
    ["platform:read", 403],
    ["docs:read", 403],
    ["inference", 403],
  ] as const) {
    await tested.reload({ require: required });
    assert.equal((await tested.send()).status, status, required);
  }
  slots.principal = keyPrincipal({ capabilities: ["workspace:admin"] });
  await tested.reload({ require: "platform:admin" });
  assert.equal((await tested.send()).status, 403);
});
