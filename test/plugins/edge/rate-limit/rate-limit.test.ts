import assert from "node:assert/strict";
import { test } from "node:test";
import type { Principal } from "sluice-gateway/services";
import rateLimit from "../../../../plugins/edge/rate-limit/index.ts";
import type { Host, Reply, StepHooks } from "../../../../src/plugin.ts";
import { manualClock, type ManualClock } from "../../../../src/testing/clock.ts";
import { fakeExchange, fakeHead, fakeHost, keyPrincipal, unknownKey } from "../../fakes.ts";
import { withDefaults } from "../../with-defaults.ts";

type Options = Partial<Parameters<typeof rateLimit.start>[0]>;

interface Caller {
  readonly principal?: Principal;
  readonly address?: string;
}

interface Setup {
  readonly hooks: StepHooks;
  readonly clock: ManualClock;
  readonly request: (caller: Caller) => Promise<Reply | void>;
  /** Returns the number of requests until the first refusal. */
  readonly burst: (caller: Caller) => Promise<number>;
  /** Returns the fields that a response at this moment contains. */
  readonly fields: (caller: Caller) => Promise<readonly string[]>;
}

async function setUp(options: Options = {}, host: Partial<Host> = {}): Promise<Setup> {
  const clock = manualClock();
  const hooks = await rateLimit.start(
    withDefaults(rateLimit, options),
    fakeHost({ clock, ...host }),
  );
  const exchange = ({ principal, address = "192.0.2.1" }: Caller) =>
    fakeExchange({
      address,
      arrivedMonotonic: clock.monotonic(),
      slots: principal === undefined ? {} : { principal },
    });
  const request = async (caller: Caller) => hooks.requestHeaders?.(exchange(caller));
  return {
    hooks,
    clock,
    request,
    async burst(caller) {
      let passed = 0;
      while ((await request(caller)) === undefined) passed++;
      return passed;
    },
    async fields(caller) {
      const head = fakeHead();
      await hooks.responseHeaders?.(exchange(caller), head);
      return head.fields;
    },
  };
}

const callers = [
  ["a Free key", { principal: keyPrincipal({ rps: 2 }) }, 2, 4],
  ["a Developer key", { principal: keyPrincipal({ rps: 10 }) }, 10, 20],
  ["a Startup key", { principal: keyPrincipal({ rps: 50 }) }, 50, 100],
  ["an Enterprise key", { principal: keyPrincipal({ rps: 200 }) }, 200, 400],
  ["an invalid key", { principal: unknownKey }, 5, 5],
  ["a caller nobody identified", {}, 5, 5],
] as const;
for (const [who, caller, rps, burst] of callers) {
  test(`${who}: ${rps} requests per second, ${burst} at once`, async () => {
    const { burst: drain, clock, request } = await setUp();
    assert.equal(await drain(caller), burst);
    for (let i = 0; i < 3; i++) {
      clock.advance(1000 / rps - 1);
      assert.notEqual(await request(caller), undefined, "not before the token is whole");
      clock.advance(1);
      assert.equal(await request(caller), undefined, "as soon as it is");
    }
    clock.advance(3_600_000);
    assert.equal(await drain(caller), burst, "no more than the burst is saved up");
  });
}

test("keys do not share buckets, and take nothing from the bucket of their address", async () => {
  const { burst, request } = await setUp();
  assert.equal(await burst({ principal: keyPrincipal({ id: "key_a" }) }), 4);
  assert.equal(await burst({ principal: keyPrincipal({ id: "key_b" }) }), 4);
  assert.equal(await request({}), undefined);
});

test("a plan change takes effect on the next request", async () => {
  const { burst, clock } = await setUp();
  assert.equal(await burst({ principal: keyPrincipal({ rps: 2 }) }), 4);
  clock.advance(1000);
  assert.equal(await burst({ principal: keyPrincipal({ rps: 10 }) }), 2, "tokens so far");
  clock.advance(1000);
  assert.equal(await burst({ principal: keyPrincipal({ rps: 10 }) }), 10);
});

test("each IPv4 address has its own bucket, also as seen by a dual-stack socket", async () => {
  const { burst, request } = await setUp();
  assert.equal(await burst({ address: "192.0.2.1" }), 5);
  assert.notEqual(await request({ address: "::ffff:192.0.2.1" }), undefined);
  assert.equal(await request({ address: "192.0.2.2" }), undefined);
});

test("an IPv6 network of /64, or of the configured size, shares a bucket", async () => {
  const wide = await setUp({ ipv6Prefix: 48 });
  assert.equal(await wide.burst({ address: "2001:db8:0:1::1" }), 5);
  assert.notEqual(await wide.request({ address: "2001:db8:0:2::1" }), undefined);
  const usual = await setUp();
  assert.equal(await usual.burst({ address: "2001:db8:0:1::1" }), 5);
  assert.notEqual(await usual.request({ address: "2001:db8::1:ffff:0:0:9" }), undefined);
  assert.equal(await usual.request({ address: "2001:db8:0:2::1" }), undefined);
});

test("by address, keys share their address's bucket", async () => {
  const { burst, request } = await setUp({ by: "address" });
  assert.equal(await burst({ principal: keyPrincipal({ rps: 200 }) }), 5);
  assert.notEqual(await request({}), undefined);
});

test("fixed terms replace those of the plan and the address", async () => {
  const fixed = await setUp({ rps: 1, burst: 3 });
  assert.equal(await fixed.burst({ principal: keyPrincipal({ rps: 200 }) }), 3);
  assert.equal(await fixed.burst({}), 3);
  fixed.clock.advance(1000);
  assert.equal(await fixed.burst({ principal: keyPrincipal({ rps: 200 }) }), 1);
  const rateOnly = await setUp({ rps: 3 });
  assert.equal(await rateOnly.burst({ principal: keyPrincipal() }), 6);
  assert.equal(await rateOnly.burst({}), 3);
});

test("responses contain the remaining tokens", async () => {
  const { request, fields, burst, clock } = await setUp();
  const caller = { principal: keyPrincipal({ rps: 2 }) };
  const with_ = (r: number) => [
    "ratelimit-policy",
    '"key";q=4;w=2',
    "ratelimit",
    `"key";r=${r};t=1`,
  ];
  await request(caller);
  assert.deepEqual(await fields(caller), with_(3));
  await burst(caller);
  assert.deepEqual(await fields(caller), with_(0));
  clock.advance(500);
  assert.deepEqual(await fields(caller), with_(1));
  await request({});
  assert.deepEqual(await fields({}), [
    "ratelimit-policy",
    '"address";q=5;w=1',
    "ratelimit",
    '"address";r=4;t=1',
  ]);
});

test("if a route has two limiters, both send their policy", async () => {
  const { hooks } = await setUp();
  const head = fakeHead({ status: 200, headers: ["ratelimit-policy", '"other";q=1'] });
  await hooks.responseHeaders?.(fakeExchange(), head);
  assert.deepEqual(head.fields.filter((_, index) => index % 2 === 1).slice(0, 2), [
    '"other";q=1',
    '"address";q=5;w=1',
  ]);
});

test("in shadow mode no header field slows a client down", async () => {
  const { hooks, burst } = await setUp({}, { mode: "shadow" });
  assert.equal("responseHeaders" in hooks, false);
  assert.equal(await burst({}), 5, "what it would refuse is still known");
});

test("a wall clock that jumps changes nothing", async () => {
  const { burst, request, clock } = await setUp();
  await burst({});
  clock.jump(3_600_000);
  assert.notEqual(await request({}), undefined);
  clock.jump(-7_200_000);
  clock.advance(200);
  assert.equal(await request({}), undefined);
});
