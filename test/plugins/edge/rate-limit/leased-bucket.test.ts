/** The requests of a leased bucket to Redis, and the requests that it allows without an answer. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { LeasedBucket } from "../../../../plugins/edge/rate-limit/leased-bucket.ts";
import { createTerms, type BucketTerms } from "../../../../plugins/edge/rate-limit/terms.ts";
import { microsOf, simulateRedis, type SimulatedRedis } from "./simulated-replicas.ts";

async function burst(simulated: SimulatedRedis, bucket: LeasedBucket): Promise<number> {
  let taken = 0;
  while (await bucket.take(microsOf(simulated))) taken++;
  return taken;
}

async function take(simulated: SimulatedRedis, bucket: LeasedBucket, times: number): Promise<void> {
  for (let i = 0; i < times; i++) assert.equal(await bucket.take(microsOf(simulated)), true);
}

const slow: BucketTerms = createTerms("key", 0.001, 100);

test("tokens that another replica holds are missing, at most a twelfth of those left to three", async (t) => {
  const simulated = await simulateRedis(t);
  if (simulated === undefined) return;
  const [one, other] = [simulated.bucket(slow), simulated.bucket(slow)];
  await take(simulated, one, 1);
  assert.equal(await burst(simulated, other), 100 - 1 - 8);
  await take(simulated, one, 8);
  assert.equal(await burst(simulated, one), 0);
});

test("most requests need no call, and a burst that arrives at once needs one", async (t) => {
  const simulated = await simulateRedis(t);
  if (simulated === undefined) return;
  const { clock } = simulated;
  const bucket = simulated.bucket(createTerms("key", 200, 400));
  for (let i = 0; i < 300; i++) {
    await take(simulated, bucket, 1);
    clock.advance(10);
  }
  assert.ok(simulated.calls < 30, `${simulated.calls} calls`);
  simulated.calls = 0;
  const cold = simulated.bucket(createTerms("key", 200, 400));
  const taken = await Promise.all(
    Array.from({ length: 50 }, async () => cold.take(microsOf(simulated))),
  );
  assert.deepEqual(new Set(taken), new Set([true]));
  assert.equal(simulated.calls, 1);
});

test("a flood after the last token reaches Redis once per token", async (t) => {
  const simulated = await simulateRedis(t);
  if (simulated === undefined) return;
  const { clock } = simulated;
  const bucket = simulated.bucket(createTerms("key", 10, 4));
  assert.equal(await burst(simulated, bucket), 4);
  simulated.calls = 0;
  let taken = 0;
  for (let ms = 0; ms < 1_000; ms++) {
    clock.advance(1);
    if (await bucket.take(microsOf(simulated))) taken++;
  }
  assert.equal(taken, 10);
  assert.ok(simulated.calls <= 20, `${simulated.calls} calls`);
  assert.equal(bucket.microsToNext(microsOf(simulated)), 100_000);
});

test("a caller with few requests loses no token to its holds", async (t) => {
  const simulated = await simulateRedis(t);
  if (simulated === undefined) return;
  const { clock } = simulated;
  const bucket = simulated.bucket(slow);
  for (let i = 0; i < 60; i++) {
    await take(simulated, bucket, 1);
    clock.advance(i % 2 === 0 ? 1_500 : 4_000);
  }
  assert.equal(await burst(simulated, bucket), 40);
});

test("the tokens of a replica that is gone count as spent", async (t) => {
  const simulated = await simulateRedis(t);
  if (simulated === undefined) return;
  const { clock } = simulated;
  await take(simulated, simulated.bucket(slow), 1);
  clock.advance(2_001);
  const other = simulated.bucket(slow);
  assert.equal(await burst(simulated, other), 91);
});

test("while Redis is away each replica allows its share, which Redis takes from the bucket later", async (t) => {
  const simulated = await simulateRedis(t);
  if (simulated === undefined) return;
  const { clock, redis } = simulated;
  const terms = createTerms("key", 0.03, 90);
  const replicas = [0, 1, 2].map(() => simulated.bucket(terms));
  redis.isUp = false;
  for (const replica of replicas) assert.equal(await burst(simulated, replica), 30);
  clock.advance(100_000);
  for (const replica of replicas) {
    assert.equal(replica.remaining(microsOf(simulated)), 1);
    assert.equal(await burst(simulated, replica), 1);
  }
  redis.isUp = true;
  let taken = 0;
  for (const replica of replicas) taken += await burst(simulated, replica);
  assert.ok(taken <= 90 - 31, `${taken} after the first replica has reported what it allowed`);
});

test("one gateway alone never exceeds its limit when Redis goes away and comes back", async (t) => {
  const simulated = await simulateRedis(t);
  if (simulated === undefined) return;
  const { redis } = simulated;
  redis.replicas = 1;
  const bucket = simulated.bucket(slow);
  await take(simulated, bucket, 20);
  redis.isUp = false;
  await take(simulated, bucket, 50);
  redis.isUp = true;
  assert.equal(await burst(simulated, bucket), 30);
  redis.isUp = false;
  assert.equal(await burst(simulated, bucket), 0);
});

test("a call without an answer leaves the decision to the share, and its tokens count as spent", async (t) => {
  const simulated = await simulateRedis(t);
  if (simulated === undefined) return;
  simulated.isDelayed = true;
  const bucket = simulated.bucket(createTerms("key", 0.001, 9));
  const first = bucket.take(microsOf(simulated));
  const reply = await simulated.nextReply();
  const second = bucket.take(microsOf(simulated));
  simulated.isDelayed = false;
  reply.lose();
  assert.equal(await first, true, "the share has three tokens");
  assert.equal(await second, true);
  // Two tokens of the first call, one of the second, and one that the share gave.
  assert.equal(await burst(simulated, bucket), 9 - 3);
});

test("a malformed reply counts as no answer", async (t) => {
  const simulated = await simulateRedis(t);
  if (simulated === undefined) return;
  for (const reply of [undefined, [], [1, 0], [1, 0, "x"], [-1, 0, "5"], [1, 0.5, "5"], "OK"]) {
    simulated.redis.run = () => Promise.resolve(reply);
    assert.equal(await burst(simulated, simulated.bucket(createTerms("key", 0.001, 9))), 3);
  }
});

test("a server whose clock is behind or ahead neither stops nor fills the bucket", async (t) => {
  const simulated = await simulateRedis(t);
  if (simulated === undefined) return;
  const terms = createTerms("key", 1, 100);
  const bucket = simulated.bucket(terms);
  assert.equal(await burst(simulated, bucket), 100);
  simulated.redisAheadMs = -3_600_000;
  simulated.clock.advance(5_000);
  assert.equal(await burst(simulated, bucket), 0, "the refill begins again");
  simulated.clock.advance(5_000);
  assert.equal(await burst(simulated, bucket), 5);
});

test("a changed limit applies at once, and keeps the tokens that fit", async (t) => {
  const simulated = await simulateRedis(t);
  if (simulated === undefined) return;
  const bucket = simulated.bucket(slow);
  await take(simulated, bucket, 10);
  bucket.change(createTerms("key", 0.001, 50), microsOf(simulated));
  const taken = await burst(simulated, bucket);
  assert.ok(taken >= 50 - 8 && taken <= 50, `${taken} tokens`);
  bucket.change(createTerms("key", 1, 50), microsOf(simulated));
  simulated.clock.advance(3_000);
  assert.equal(await burst(simulated, bucket), 3);
});

test("another number of replicas changes the share", async (t) => {
  const simulated = await simulateRedis(t);
  if (simulated === undefined) return;
  const { redis } = simulated;
  redis.isUp = false;
  redis.replicas = 2;
  const bucket = simulated.bucket(slow);
  await take(simulated, bucket, 1);
  redis.replicas = 10;
  assert.equal(await burst(simulated, bucket), 10);
});

test("a bucket is forgotten only when it holds nothing", async (t) => {
  const simulated = await simulateRedis(t);
  if (simulated === undefined) return;
  const bucket = simulated.bucket(createTerms("key", 100, 100));
  assert.equal(bucket.isFull(microsOf(simulated)), true);
  await take(simulated, bucket, 1);
  simulated.clock.advance(999);
  assert.equal(bucket.isFull(microsOf(simulated)), false);
  simulated.clock.advance(2);
  assert.equal(bucket.isFull(microsOf(simulated)), true);
});
