/**
 * Token buckets, against their definition in exact integers, their table, and the buckets that threads share, also after
 * the main thread has removed one.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { Buckets, type CreateBucket } from "../../../../plugins/edge/rate-limit/buckets.ts";
import { createTerms } from "../../../../plugins/edge/rate-limit/terms.ts";
import { TokenBucket } from "../../../../plugins/edge/rate-limit/token-bucket.ts";
import type { Threads } from "../../../../src/plugin.ts";
import { manualClock } from "../../../../src/testing/clock.ts";
import {
  createSharedBucket,
  joinedBuckets,
  serveBuckets,
} from "../../../../plugins/edge/rate-limit/shared-buckets.ts";

const newBucket: CreateBucket<TokenBucket> = (_, terms, now) => new TokenBucket(terms, now);

/**
 * The definition, in exact integers: a request may pass at `t` if and only if, for every earlier grant at `s`, the
 * number of grants from that one on, including this one, is at most burst + rate × (t - s). Times are in microseconds,
 * the rate in thousandths of a request per second.
 */
function mayPass(grants: readonly bigint[], t: bigint, rateMilli: bigint, burst: bigint): boolean {
  const total = BigInt(grants.length) + 1n;
  return grants.every((s, index) => {
    const granted = total - BigInt(index);
    return (granted - burst) * 1_000_000_000n <= rateMilli * (t - s);
  });
}

const rateMilli = fc.oneof(
  fc.constantFrom(2_000, 10_000, 50_000, 200_000, 5_000, 3_000, 7_000, 333, 1),
  fc.integer({ min: 1, max: 1_000_000_000 }),
);

/** Gaps around the time that one token takes, where a rounding error would show, and long pauses. */
function gaps(rate: number): fc.Arbitrary<number[]> {
  const token = 1e9 / rate;
  const gap = fc.oneof(
    { weight: 4, arbitrary: fc.constantFrom(0, Math.floor(token), Math.ceil(token)) },
    { weight: 2, arbitrary: fc.integer({ min: 0, max: Math.ceil(token * 3) }) },
    { weight: 1, arbitrary: fc.integer({ min: 0, max: 1_000_000_000_000 }) },
  );
  return fc.array(gap, { minLength: 1, maxLength: 80 });
}

const scenario = fc
  .record({ rate: rateMilli, burst: fc.integer({ min: 1, max: 20 }) })
  .chain(({ rate, burst }) =>
    fc.record({ rate: fc.constant(rate), burst: fc.constant(burst), gaps: gaps(rate) }),
  );

test("grants exactly what the definition of a token bucket grants", () => {
  fc.assert(
    fc.property(scenario, ({ rate, burst, gaps: waits }) => {
      let now = 0;
      const bucket = new TokenBucket(createTerms("t", rate / 1000, burst), now);
      const grants: bigint[] = [];
      for (const wait of waits) {
        now += wait;
        const expected = mayPass(grants, BigInt(now), BigInt(rate), BigInt(burst));
        assert.equal(bucket.remaining(now) >= 1, expected, "what it says is left agrees");
        assert.equal(bucket.take(now), expected, `at ${now} after ${grants.length} grants`);
        if (expected) grants.push(BigInt(now));
      }
    }),
    { numRuns: 500 },
  );
});

test("a million requests at intervals of a millisecond cause no drift", () => {
  const bucket = new TokenBucket(createTerms("t", 7, 1), 0);
  let granted = 0;
  for (let ms = 0; ms < 1_000_000; ms++) if (bucket.take(ms * 1000)) granted++;
  // With a burst of 1 no token is saved, so each request waits for the first millisecond at or after 1/7 s: every 143
  // ms.
  assert.equal(granted, Math.ceil(1_000_000 / 143));
});

test("a time before the last one refills nothing and breaks nothing", () => {
  const bucket = new TokenBucket(createTerms("t", 1, 1), 5_000_000);
  assert.equal(bucket.take(5_000_000), true);
  assert.equal(bucket.take(4_000_000), false);
  assert.equal(bucket.take(5_999_999), false);
  assert.equal(bucket.take(6_000_000), true);
});

test("new terms keep the tokens that were refilled with the old terms", () => {
  const bucket = new TokenBucket(createTerms("t", 1, 1), 0);
  bucket.take(0);
  bucket.change(createTerms("t", 1000, 2000), 500_000);
  assert.equal(bucket.take(500_000), false, "half a token");
  assert.equal(bucket.take(500_500), true);
});

test("a burst below one token counts as one, so that a request can pass", () => {
  const bucket = new TokenBucket(createTerms("t", 0.3, 0.6), 0);
  assert.equal(bucket.take(0), true);
  assert.equal(bucket.take(3_333_333), false);
  assert.equal(bucket.take(3_333_334), true);
});

const terms = createTerms("address", 5, 5);

test("a full table drops buckets that are full again, and keeps those in use", () => {
  const buckets = new Buckets(3, newBucket);
  const busy = buckets.of("busy", terms, 0);
  const rested = buckets.of("rested", terms, 0);
  buckets.of("third", terms, 0).take(0);
  rested.take(0);
  busy.take(0);
  const later = 200_000;
  busy.take(later);
  buckets.of("new", terms, later).take(later);
  assert.equal(buckets.size, 3);
  assert.equal(buckets.of("busy", terms, later), busy);
  assert.notEqual(buckets.of("rested", terms, later), rested);
});

test("the table never exceeds its maximum size, even if every bucket is in use", () => {
  const buckets = new Buckets(50, newBucket);
  for (let caller = 0; caller < 5_000; caller++) {
    buckets.of(String(caller), terms, 0).take(0);
    assert.ok(buckets.size <= 50);
  }
  assert.equal(buckets.size, 50);
  const tiny = new Buckets(1, newBucket);
  tiny.of("a", terms, 0).take(0);
  tiny.of("b", terms, 0).take(0);
  assert.equal(tiny.size, 1);
});

const ofKey = createTerms("key", 1, 4);
const clock = manualClock();
const micros = (): number => Math.floor(clock.monotonic() * 1000);

/** Returns the buckets of two threads, whose main thread has room for one bucket. */
function createThreads(): readonly Buckets[] {
  let answer: (value: unknown) => unknown;
  const threads = {
    async call(_: string, value: unknown) {
      return answer(value);
    },
    serve(_: string, given: (value: unknown) => unknown) {
      answer = given;
      return { [Symbol.dispose]() {} };
    },
  } as Partial<Threads> as Threads;
  const shared = new Buckets(1, createSharedBucket);
  serveBuckets(threads, "limiter", () => shared, clock);
  return [1, 2].map(() => new Buckets(10, joinedBuckets(threads, "limiter")));
}

async function drain(threads: readonly Buckets[], caller: string): Promise<number> {
  for (let taken = 0; ; taken++) {
    const bucket = threads[taken % threads.length]?.of(caller, ofKey, micros());
    if ((await bucket?.take(micros())) !== true) return taken;
  }
}

test("two threads share the tokens of a caller", async () => {
  const threads = createThreads();
  assert.equal(await drain(threads, "a"), 4);
  clock.advance(2_500);
  const [one, other] = threads.map((thread) => thread.of("a", ofKey, micros()));
  assert.deepEqual([one?.remaining(micros()), other?.remaining(micros())], [2, 2]);
  assert.equal(await drain(threads, "a"), 2);
  assert.equal(other?.microsToNext(micros()), 500_000);
});

test("a changed rate applies to the tokens that the threads share", async () => {
  const [one, other] = createThreads();
  const smaller = createTerms("key", 1, 2);
  assert.equal(await one?.of("a", ofKey, micros()).take(micros()), true);
  const bucket = other?.of("a", ofKey, micros());
  await bucket?.take(micros());
  bucket?.change(smaller, micros());
  assert.equal(one?.of("a", ofKey, micros()).remaining(micros()), 2);
});

test("threads share the new bucket of a caller whose bucket was removed", async () => {
  const threads = createThreads();
  assert.equal(await drain(threads, "a"), 4);
  // The main thread removes the bucket of "a".
  assert.equal(await drain(threads, "b"), 4);
  assert.equal(await drain(threads, "a"), 4);
});
