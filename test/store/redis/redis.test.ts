/**
 * Tests of the contract of `host.store.redis` and of limits of attempts on a real Redis that fails, and of the parser of its
 * URL.
 */
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:net";
import { test } from "node:test";
import { startFaultProxy } from "../fault-proxy.ts";
import { startRedis } from "../redis-server.ts";
import { freePort } from "../server-process.ts";
import { openRedis, until } from "./open-redis.ts";
import { RateLimiterRes } from "rate-limiter-flexible";
import { createAttemptLimiter, type AttemptLimiter } from "../../../src/store/attempt-limiter.ts";
import { hostsOf, parseRedisUrl } from "../../../src/store/redis/redis-url.ts";

const increment = "return redis.call('INCRBY', KEYS[1], ARGV[1])";

test("a script runs with its key and arguments, also after the server forgot it", async (t) => {
  const server = await startRedis(t);
  if (server === undefined) return;
  const { redis, up } = await openRedis(t, server.url);
  assert.equal(redis.isUp, true);
  assert.equal(up(), 1);
  const key = redis.keyOf("test", "one");
  assert.equal(await redis.run("test", increment, key, [2]), 2);
  assert.equal(await redis.run("test", increment, key, ["3"]), 5);
  await redis.client.script("FLUSH");
  const together = Array.from({ length: 5 }, () => redis.run("test", increment, key, [1]));
  assert.deepEqual(await Promise.all(together), [6, 7, 8, 9, 10]);
});

test("after a kill of Redis, calls fail at once until it answers again", async (t) => {
  const server = await startRedis(t);
  if (server === undefined) return;
  const { redis, up, lines } = await openRedis(t, server.url);
  await server.kill();
  await until(() => !redis.isUp);
  assert.equal(up(), 0);
  await assert.rejects(redis.run("test", increment, "key", [1]), /does not answer/);
  await server.start();
  await until(() => redis.isUp);
  assert.equal(up(), 1);
  assert.equal(await redis.run("test", increment, "key", [1]), 1);
  assert.equal(lines.filter((line) => line.startsWith("Redis does not answer")).length, 1);
});

test("a Redis that needs more than 50 ms counts as away", async (t) => {
  const server = await startRedis(t);
  if (server === undefined) return;
  await using proxy = await startFaultProxy(server.port);
  const { redis } = await openRedis(t, `redis://127.0.0.1:${proxy.port}`, { commandMs: 50 });
  await until(() => redis.isUp);
  proxy.delayMs = 100;
  await assert.rejects(redis.run("test", increment, "key", [1]), /50 ms|timed out/);
  assert.equal(redis.isUp, false);
  proxy.delayMs = 0;
  await until(() => redis.isUp);
});

test("a call whose reply is lost is not sent again", async (t) => {
  const server = await startRedis(t);
  if (server === undefined) return;
  await using proxy = await startFaultProxy(server.port);
  const { redis } = await openRedis(t, `redis://127.0.0.1:${proxy.port}`);
  await redis.run("test", increment, "key", [0]);
  proxy.dropAfter = "evalsha";
  proxy.repliesToDrop = 1;
  await assert.rejects(redis.run("test", increment, "key", [1]));
  assert.equal(proxy.dropped, 1);
  await until(() => redis.isUp);
  assert.equal(await redis.run("test", increment, "key", [0]), 1);
});

test("a server that cannot be written to counts as away", async (t) => {
  const server = await startRedis(t, ["--maxmemory", "1"]);
  if (server === undefined) return;
  const { redis, lines } = await openRedis(t, server.url);
  assert.equal(redis.isUp, false);
  assert.match(lines.join(), /OOM/);
});

test("a wrong password is logged without the password", async (t) => {
  const server = await startRedis(t, ["--requirepass", "right-password"]);
  if (server === undefined) return;
  const wrong = await openRedis(t, `redis://:wrong-password@127.0.0.1:${server.port}`);
  assert.equal(wrong.redis.isUp, false);
  assert.match(wrong.lines.join(), /WRONGPASS/);
  assert.doesNotMatch(wrong.lines.join(), /wrong-password/);
  const right = await openRedis(t, `redis://:right-password@127.0.0.1:${server.port}/1`);
  assert.equal(right.redis.isUp, true);
});

test("a server that is not Redis does not end the process", async (t) => {
  const port = await freePort();
  for (const garbage of [
    "HTTP/1.1 400 Bad Request\r\n\r\n",
    "$-5\r\n*9999999999\r\n%1\r\n",
    "+OK\r\n".repeat(50),
  ]) {
    let connections = 0;
    const server = createServer((socket) => {
      connections++;
      socket.on("error", () => {});
      socket.on("data", () => socket.write(garbage));
    });
    server.listen(port, "127.0.0.1");
    await once(server, "listening");
    const { redis } = await openRedis(t, `redis://127.0.0.1:${port}`);
    await redis.run("test", increment, "key", [1]).catch(() => undefined);
    // The next connection gets the same answer.
    await until(() => connections > 1 || redis.isUp);
    redis.close();
    server.close();
    await once(server, "close");
  }
});

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

const server = { kind: "server", isTls: false, db: 0, master: "" };

const good = [
  ["redis://cache", { ...server, hosts: [{ host: "cache", port: 6379 }] }],
  ["redis://cache:80/", { ...server, hosts: [{ host: "cache", port: 80 }] }],
  [
    "redis://user:p%40ss:word@10.0.0.1:7000/3",
    {
      ...server,
      hosts: [{ host: "10.0.0.1", port: 7000 }],
      username: "user",
      password: "p@ss:word",
      db: 3,
    },
  ],
  [
    "rediss://:secret@[::1]:6380",
    { ...server, isTls: true, hosts: [{ host: "::1", port: 6380 }], password: "secret" },
  ],
  [
    "redis+sentinel://:secret@a:1,b/my-master/2",
    {
      ...server,
      kind: "sentinel",
      hosts: [
        { host: "a", port: 1 },
        { host: "b", port: 26_379 },
      ],
      password: "secret",
      db: 2,
      master: "my-master",
    },
  ],
  [
    "redis+cluster://a:7000,b:7001",
    {
      ...server,
      kind: "cluster",
      hosts: [
        { host: "a", port: 7000 },
        { host: "b", port: 7001 },
      ],
    },
  ],
] as const;
for (const [url, place] of good) {
  test(`reads ${url}`, () => assert.deepEqual(parseRedisUrl(url), place));
}

const bad = [
  "",
  ...`
    cache:6379 http://cache redis:cache redis:// redis://a,b redis://cache:port
    redis://cache:70000 redis://cache/name redis://cache/1/2 redis://cache?db=1
    redis://us%er@cache redis+sentinel://a,b redis+sentinel://a,,b/main
    redis+sentinel://a/main/x redis+cluster://a/1 rediss+cluster://a toString://a`
    .trim()
    .split(/\s+/),
];
for (const url of bad) {
  test(`refuses ${JSON.stringify(url)}`, () => assert.equal(parseRedisUrl(url), undefined));
}

test("messages name the hosts without user and password", () => {
  const place = parseRedisUrl("redis+cluster://user:secret@a:7000,b");
  assert.equal(place && hostsOf(place), "a:7000, b:6379");
});
