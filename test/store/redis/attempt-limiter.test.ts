import assert from "node:assert/strict";
import { test } from "node:test";
import { RateLimiterRes } from "rate-limiter-flexible";
import { createAttemptLimiter, type AttemptLimiter } from "../../../src/store/attempt-limiter.ts";
import { startRedis } from "../redis-server.ts";
import { openRedis, until } from "./open-redis.ts";

const limit = { name: "test", attempts: 3, windowSeconds: 60, blockSeconds: 90 };

/** Returns the number of attempts until the first refusal, and the milliseconds until the next one. */
async function drain(limiter: AttemptLimiter, caller: string): Promise<[number, number]> {
  for (let count = 0; ; count++) {
    try {
      await limiter.consume(caller);
    } catch (refused) {
      assert.ok(refused instanceof RateLimiterRes);
      return [count, refused.msBeforeNext];
    }
  }
}

test("without Redis, attempts are counted in memory", async () => {
  const limiter = createAttemptLimiter(undefined, limit);
  const first = await limiter.consume("a");
  assert.equal(first.isFirstInDuration, true);
  assert.deepEqual(await drain(limiter, "a"), [2, 90_000]);
  assert.deepEqual(await drain(limiter, "b"), [3, 90_000]);
});

test("replicas share the counters in Redis, whose keys do not show the caller", async (t) => {
  const server = await startRedis(t);
  if (server === undefined) return;
  const { redis } = await openRedis(t, server.url);
  const other = await openRedis(t, server.url);
  const limiters = [redis, other.redis].map((each) => createAttemptLimiter(each, limit));
  const [one, two] = limiters;
  assert.ok(one !== undefined && two !== undefined);
  await one.consume("192.0.2.1");
  await two.consume("192.0.2.1");
  assert.equal((await drain(one, "192.0.2.1"))[0], 1);
  const [count, waitMs] = await drain(two, "192.0.2.1");
  assert.equal(count, 0);
  assert.ok(waitMs > 80_000 && waitMs <= 90_000, `${waitMs} ms`);
  assert.equal((await drain(two, "192.0.2.2"))[0], 3);
  const keys = await redis.client.keys("*");
  assert.equal(keys.filter((key) => key.startsWith("sluice:1:dev:test:")).length, 2);
  assert.doesNotMatch(keys.join(), /192/);
});

test("a limit without a block ends with its window, with Redis and without", async (t) => {
  const server = await startRedis(t);
  if (server === undefined) return;
  const { redis } = await openRedis(t, server.url);
  const window = { name: "test", attempts: 2, windowSeconds: 60 };
  for (const store of [undefined, redis]) {
    const [count, waitMs] = await drain(createAttemptLimiter(store, window), "a");
    assert.equal(count, 2);
    assert.ok(waitMs > 50_000 && waitMs <= 60_000, `${waitMs} ms`);
  }
});

test("while Redis is away or hangs, each replica counts alone", async (t) => {
  const server = await startRedis(t);
  if (server === undefined) return;
  const { redis } = await openRedis(t, server.url, { commandMs: 100 });
  const limiter = createAttemptLimiter(redis, limit);
  await limiter.consume("a");
  server.signal("SIGSTOP");
  assert.equal((await drain(limiter, "a"))[0], 3);
  server.signal("SIGCONT");
  await server.kill();
  await until(() => !redis.isUp);
  assert.equal((await drain(limiter, "b"))[0], 3);
  await server.start();
  await until(() => redis.isUp);
  assert.equal((await drain(limiter, "c"))[0], 3);
  assert.equal((await redis.client.keys("sluice:1:dev:test:*")).length, 1);
});
