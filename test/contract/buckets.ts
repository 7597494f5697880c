/** Tests of every implementation of `Bucket`. With a shared store, `one` and `other` are buckets of two gateways. */
import assert from "node:assert/strict";
import { describe, test, type TestContext } from "node:test";
import type { Awaitable } from "sluice-gateway/plugin";
import type { Bucket } from "../../plugins/edge/rate-limit/bucket.ts";
import { createTerms, type BucketTerms } from "../../plugins/edge/rate-limit/terms.ts";

export interface OpenBuckets {
  readonly one: (caller: string, terms: BucketTerms) => Bucket;
  readonly other: (caller: string, terms: BucketTerms) => Bucket;
  /** Returns the time in whole microseconds. */
  readonly now: () => number;
  readonly pass: (ms: number) => void;
}

/** `open` returns undefined if the store is not installed, and the test is skipped. */
export function describeBuckets(
  name: string,
  open: (t: TestContext) => Awaitable<OpenBuckets | undefined>,
): void {
  /** Returns the number of requests until the first refusal, in one moment. */
  const drain = async (bucket: Bucket, now: () => number): Promise<number> => {
    let taken = 0;
    while (await bucket.take(now())) taken++;
    return taken;
  };

  describe(`rate buckets: ${name}`, () => {
    test("a new bucket is full, and refills continuously up to its burst", async (t) => {
      const opened = await open(t);
      if (opened === undefined) return;
      const { one, now, pass } = opened;
      const bucket = one("a", createTerms("key", 4, 8));
      assert.equal(await drain(bucket, now), 8);
      for (let i = 0; i < 5; i++) {
        pass(249);
        assert.equal(await drain(bucket, now), 0, "the token is not whole");
        pass(1);
        assert.equal(await drain(bucket, now), 1);
      }
      pass(3_600_000);
      assert.equal(await drain(bucket, now), 8);
    });

    test("gateways share the bucket of a caller", async (t) => {
      const opened = await open(t);
      if (opened === undefined) return;
      const { one, other, now } = opened;
      const terms = createTerms("key", 0.001, 60);
      const buckets = [one("a", terms), other("a", terms)];
      let taken = 0;
      for (let i = 0; i < 200; i++) if (await buckets[i % 2]?.take(now())) taken++;
      assert.equal(taken, 60);
    });

    test("callers, and kinds of callers with the same name, do not share a bucket", async (t) => {
      const opened = await open(t);
      if (opened === undefined) return;
      const { one, other, now } = opened;
      const terms = createTerms("key", 0.001, 3);
      assert.equal(await drain(one("a", terms), now), 3);
      assert.equal(await drain(other("b", terms), now), 3);
      assert.equal(await drain(one("c", createTerms("address", 0.001, 3)), now), 3);
    });

    test("requests that arrive together get the tokens that there are", async (t) => {
      const opened = await open(t);
      if (opened === undefined) return;
      const { one, other, now } = opened;
      const terms = createTerms("key", 0.001, 20);
      const buckets = [one("a", terms), other("a", terms)];
      const taken = await Promise.all(
        Array.from({ length: 50 }, async (_, i) => buckets[i % 2]?.take(now())),
      );
      // The tokens that one gateway holds for its next requests are missing for the other one at this moment.
      const rest = await Promise.all(buckets.map((bucket) => drain(bucket, now)));
      assert.equal(taken.filter(Boolean).length + rest.reduce((sum, each) => sum + each, 0), 20);
    });

    test("the remaining tokens and the time of the next one are known after a request", async (t) => {
      const opened = await open(t);
      if (opened === undefined) return;
      const { one, now, pass } = opened;
      const bucket = one("a", createTerms("key", 2, 4));
      for (const remaining of [3, 2, 1, 0]) {
        assert.equal(await bucket.take(now()), true);
        assert.equal(bucket.remaining(now()), remaining);
      }
      assert.equal(await bucket.take(now()), false);
      assert.equal(bucket.microsToNext(now()), 500_000);
      pass(200);
      assert.equal(bucket.microsToNext(now()), 300_000);
      pass(300);
      assert.equal(bucket.microsToNext(now()), 0);
    });

    test("new terms apply to the next request, and keep the tokens that fit", async (t) => {
      const opened = await open(t);
      if (opened === undefined) return;
      const { one, now, pass } = opened;
      const bucket = one("a", createTerms("key", 1, 8));
      assert.equal(await bucket.take(now()), true);
      bucket.change(createTerms("key", 1, 3), now());
      assert.equal(await drain(bucket, now), 3);
      bucket.change(createTerms("key", 10, 20), now());
      pass(1_000);
      assert.equal(await drain(bucket, now), 10);
    });

    test("a rate of zero grants the burst once", async (t) => {
      const opened = await open(t);
      if (opened === undefined) return;
      const { one, now, pass } = opened;
      const bucket = one("a", createTerms("key", 0, 2));
      assert.equal(await drain(bucket, now), 2);
      pass(86_400_000);
      assert.equal(await bucket.take(now()), false);
      assert.ok(bucket.microsToNext(now()) > 0);
    });

    test("a bucket is full when a new one would behave in the same way", async (t) => {
      const opened = await open(t);
      if (opened === undefined) return;
      const { one, now, pass } = opened;
      const bucket = one("a", createTerms("key", 1, 4));
      assert.equal(bucket.isFull(now()), true);
      await bucket.take(now());
      assert.equal(bucket.isFull(now()), false);
      pass(5_000);
      assert.equal(bucket.isFull(now()), true);
    });
  });
}
