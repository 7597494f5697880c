import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:net";
import { test } from "node:test";
import { startFaultProxy } from "../fault-proxy.ts";
import { startRedis } from "../redis-server.ts";
import { freePort } from "../server-process.ts";
import { openRedis, until } from "./open-redis.ts";

const count = "return redis.call('INCRBY', KEYS[1], ARGV[1])";

test("a script runs with its key and arguments, also after the server forgot it", async (t) => {
  const server = await startRedis(t);
  if (server === undefined) return;
  const { redis, up } = await openRedis(t, server.url);
  assert.equal(redis.isUp, true);
  assert.equal(up(), 1);
  const key = redis.keyOf("test", "one");
  assert.equal(await redis.run("test", count, key, [2]), 2);
  assert.equal(await redis.run("test", count, key, ["3"]), 5);
  await redis.client.script("FLUSH");
  const together = Array.from({ length: 5 }, () => redis.run("test", count, key, [1]));
  assert.deepEqual(await Promise.all(together), [6, 7, 8, 9, 10]);
});

test("after a kill of Redis, calls fail at once until it answers again", async (t) => {
  const server = await startRedis(t);
  if (server === undefined) return;
  const { redis, up, lines } = await openRedis(t, server.url);
  await server.kill();
  await until(() => !redis.isUp);
  assert.equal(up(), 0);
  await assert.rejects(redis.run("test", count, "key", [1]), /does not answer/);
  await server.start();
  await until(() => redis.isUp);
  assert.equal(up(), 1);
  assert.equal(await redis.run("test", count, "key", [1]), 1);
  assert.equal(lines.filter((line) => line.startsWith("Redis does not answer")).length, 1);
});

test("a Redis that needs more than 50 ms counts as away", async (t) => {
  const server = await startRedis(t);
  if (server === undefined) return;
  await using proxy = await startFaultProxy(server.port);
  const { redis } = await openRedis(t, `redis://127.0.0.1:${proxy.port}`, { commandMs: 50 });
  await until(() => redis.isUp);
  proxy.delayMs = 100;
  await assert.rejects(redis.run("test", count, "key", [1]), /50 ms|timed out/);
  assert.equal(redis.isUp, false);
  proxy.delayMs = 0;
  await until(() => redis.isUp);
});

test("a call whose reply is lost is not sent again", async (t) => {
  const server = await startRedis(t);
  if (server === undefined) return;
  await using proxy = await startFaultProxy(server.port);
  const { redis } = await openRedis(t, `redis://127.0.0.1:${proxy.port}`);
  await redis.run("test", count, "key", [0]);
  proxy.dropAfter = "evalsha";
  proxy.repliesToDrop = 1;
  await assert.rejects(redis.run("test", count, "key", [1]));
  assert.equal(proxy.dropped, 1);
  await until(() => redis.isUp);
  assert.equal(await redis.run("test", count, "key", [0]), 1);
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
    await redis.run("test", count, "key", [1]).catch(() => undefined);
    // The next connection gets the same answer.
    await until(() => connections > 1 || redis.isUp);
    redis.close();
    server.close();
    await once(server, "close");
  }
});
