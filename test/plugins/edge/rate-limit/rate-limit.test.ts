/** How many requests of a caller the step lets pass, and what its answers say about the rest. */
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { defineStep, defineSurface } from "sluice-gateway/plugin";
import type { Principal } from "sluice-gateway/services";
import { manualClock, type ManualClock } from "../../../../src/testing/clock.ts";
import { openMemoryGateway, type TestAnswer } from "../../../../src/testing/memory-gateway.ts";
import { keyPrincipal, unknownKey } from "../../fakes.ts";

interface Caller {
  readonly principal?: Principal;
  readonly address?: string;
}

interface Setup {
  readonly clock: ManualClock;
  readonly send: (caller: Caller) => Promise<TestAnswer>;
  readonly passes: (caller: Caller) => Promise<boolean>;
  readonly burst: (caller: Caller) => Promise<number>;
}

/** `steps`: entries of the route's list, with `rate-limit` among them. */
async function setUp(t: TestContext, ...steps: readonly object[]): Promise<Setup> {
  const clock = manualClock();
  let principal: Principal | undefined;
  const identify = defineStep({
    name: "identify",
    description: "Sets the caller of the test.",
    provides: { principal: "requestHeaders" },
    start: () => ({
      requestHeaders: (x) => void (principal !== undefined && x.set("principal", principal)),
    }),
  });
  const ok = defineSurface({
    name: "ok",
    description: "Answers with 200.",
    start: () => ({ answer: () => ({ status: 200 }) }),
  });
  const gateway = await openMemoryGateway({
    clock,
    path: "/",
    plugins: new Map<string, typeof identify | typeof ok>([
      ["identify", identify],
      ["ok", ok],
    ]),
    file: {
      server: { trustProxy: ["127.0.0.1"] },
      plugins: { identify: "./identify", ok: "./ok" },
      routes: [
        { path: "/*", run: ["identify", ...(steps.length > 0 ? steps : ["rate-limit"])], to: "ok" },
      ],
    },
  });
  t.after(() => gateway[Symbol.asyncDispose]());
  const send = ({ principal: sent, address = "192.0.2.1" }: Caller): Promise<TestAnswer> => {
    principal = sent;
    return gateway.begin({ headers: { "x-forwarded-for": address } }).answer;
  };
  const passes = async (caller: Caller): Promise<boolean> => {
    const { status, code } = await send(caller);
    if (status !== 200) assert.deepEqual([status, code], [429, "GATEWAY_RATE_LIMITED"]);
    return status === 200;
  };
  return {
    clock,
    send,
    passes,
    async burst(caller) {
      let passed = 0;
      while (await passes(caller)) passed++;
      return passed;
    },
  };
}

const limit = (options: object): object => ({ "rate-limit": options });

test("a key has the rate of its plan and twice as many at once, every other caller 5 of both", async (t) => {
  const { burst: drain, clock, passes } = await setUp(t);
  const key = (rps: number): Caller => ({ principal: keyPrincipal({ id: `key_${rps}`, rps }) });
  for (const [caller, rps, burst] of [
    [{ principal: unknownKey, address: "192.0.2.8" }, 5, 5],
    [{ address: "192.0.2.9" }, 5, 5],
    [key(2), 2, 4],
    [key(10), 10, 20],
    [key(50), 50, 100],
    [key(200), 200, 400],
  ] as const) {
    assert.equal(await drain(caller), burst);
    for (let i = 0; i < 3; i++) {
      clock.advance(1000 / rps - 1);
      assert.equal(await passes(caller), false, "not before the token is whole");
      clock.advance(1);
      assert.equal(await passes(caller), true, "as soon as it is");
    }
    clock.advance(3_600_000);
    assert.equal(await drain(caller), burst, "no more than the burst is saved up");
  }
  assert.equal(await drain({}), 5, "keys take nothing from the bucket of their address");
});

test("a plan change takes effect on the next request", async (t) => {
  const { burst, clock } = await setUp(t);
  assert.equal(await burst({ principal: keyPrincipal({ rps: 2 }) }), 4);
  clock.advance(1000);
  assert.equal(await burst({ principal: keyPrincipal({ rps: 10 }) }), 2, "tokens so far");
  clock.advance(1000);
  assert.equal(await burst({ principal: keyPrincipal({ rps: 10 }) }), 10);
});

test("an IPv6 network of /64, or of the configured size, shares a bucket", async (t) => {
  const wide = await setUp(t, limit({ ipv6Prefix: 48 }));
  assert.equal(await wide.burst({ address: "2001:db8:0:1::1" }), 5);
  assert.equal(await wide.passes({ address: "2001:db8:0:2::1" }), false);
  const usual = await setUp(t);
  assert.equal(await usual.burst({ address: "2001:db8:0:1::1" }), 5);
  assert.equal(await usual.passes({ address: "2001:db8::1:ffff:0:0:9" }), false);
  assert.equal(await usual.passes({ address: "2001:db8:0:2::1" }), true);
});

test("by address, keys share their address's bucket", async (t) => {
  const { burst, passes } = await setUp(t, limit({ by: "address" }));
  assert.equal(await burst({ principal: keyPrincipal({ rps: 200 }) }), 5);
  assert.equal(await passes({}), false);
});

test("fixed terms replace those of the plan and the address", async (t) => {
  const fixed = await setUp(t, limit({ rps: 1, burst: 3 }));
  assert.equal(await fixed.burst({ principal: keyPrincipal({ rps: 200 }) }), 3);
  assert.equal(await fixed.burst({}), 3);
  fixed.clock.advance(1000);
  assert.equal(await fixed.burst({ principal: keyPrincipal({ rps: 200 }) }), 1);
  const rateOnly = await setUp(t, limit({ rps: 3 }));
  assert.equal(await rateOnly.burst({ principal: keyPrincipal() }), 6);
  assert.equal(await rateOnly.burst({}), 3);
});

test("responses contain the remaining tokens", async (t) => {
  const { send, burst, clock } = await setUp(t);
  const caller = { principal: keyPrincipal({ rps: 2 }) };
  const fields = async (of: Caller) => {
    const { headers } = await send(of);
    return [headers["ratelimit-policy"], headers["ratelimit"]];
  };
  const policy = '"key";q=4;w=2';
  assert.deepEqual(await fields(caller), [policy, '"key";r=3;t=1']);
  await burst(caller);
  assert.deepEqual(await fields(caller), [policy, '"key";r=0;t=1']);
  clock.advance(1000);
  assert.deepEqual(await fields(caller), [policy, '"key";r=1;t=1']);
  assert.deepEqual(await fields({}), ['"address";q=5;w=1', '"address";r=4;t=1']);
});

test("if a route has two limiters, both send their policy", async (t) => {
  const { send } = await setUp(t, limit({ rps: 1 }), limit({}));
  const { headers } = await send({});
  assert.equal(headers["ratelimit-policy"], '"address";q=5;w=1, "address";q=1;w=1');
});

test("a wall clock that jumps changes nothing", async (t) => {
  const { burst, passes, clock } = await setUp(t);
  await burst({});
  clock.jump(3_600_000);
  assert.equal(await passes({}), false);
  clock.jump(-7_200_000);
  clock.advance(200);
  assert.equal(await passes({}), true);
});
