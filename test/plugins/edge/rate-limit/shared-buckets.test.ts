/** Threads share the tokens of a caller, also after the main thread has removed its bucket. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Threads } from "../../../../src/plugin.ts";
import { manualClock } from "../../../../src/testing/clock.ts";
import { Buckets } from "../../../../plugins/edge/rate-limit/buckets.ts";
import {
  createSharedBucket,
  joinedBuckets,
  serveBuckets,
} from "../../../../plugins/edge/rate-limit/shared-buckets.ts";
import { createTerms } from "../../../../plugins/edge/rate-limit/terms.ts";

const terms = createTerms("key", 1, 4);
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
    const bucket = threads[taken % threads.length]?.of(caller, terms, micros());
    if ((await bucket?.take(micros())) !== true) return taken;
  }
}

test("two threads share the tokens of a caller", async () => {
  const threads = createThreads();
  assert.equal(await drain(threads, "a"), 4);
  clock.advance(2_500);
  const [one, other] = threads.map((thread) => thread.of("a", terms, micros()));
  assert.deepEqual([one?.remaining(micros()), other?.remaining(micros())], [2, 2]);
  assert.equal(await drain(threads, "a"), 2);
  assert.equal(other?.microsToNext(micros()), 500_000);
});

test("a changed rate applies to the tokens that the threads share", async () => {
  const [one, other] = createThreads();
  const smaller = createTerms("key", 1, 2);
  assert.equal(await one?.of("a", terms, micros()).take(micros()), true);
  const bucket = other?.of("a", terms, micros());
  await bucket?.take(micros());
  bucket?.change(smaller, micros());
  assert.equal(one?.of("a", terms, micros()).remaining(micros()), 2);
});

test("threads share the new bucket of a caller whose bucket was removed", async () => {
  const threads = createThreads();
  assert.equal(await drain(threads, "a"), 4);
  // The main thread removes the bucket of "a".
  assert.equal(await drain(threads, "b"), 4);
  assert.equal(await drain(threads, "a"), 4);
});
