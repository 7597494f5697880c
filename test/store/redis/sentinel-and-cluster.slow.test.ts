/** The other kinds of servers: a master behind Sentinel, and a Cluster of three nodes. */
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { Redis as Client } from "ioredis";
import { startRedis, startSentinel, type RedisServer } from "../redis-server.ts";
import { openRedis, until } from "./open-redis.ts";

const count = "return redis.call('INCRBY', KEYS[1], ARGV[1])";

test("after a failover, Sentinel leads to the new master", async (t) => {
  const master = await startRedis(t);
  if (master === undefined) return;
  const replica = await startRedis(t, ["--replicaof", "127.0.0.1", String(master.port)]);
  if (replica === undefined) return;
  const info = new Client(replica.url);
  info.on("error", () => {});
  t.after(() => info.disconnect());
  await until(async () => (await info.info("replication")).includes("master_link_status:up"));
  const url = await startSentinel(t, master);
  const { redis } = await openRedis(t, url);
  await until(() => redis.isUp);
  const key = redis.keyOf("test", "one");
  await redis.run("test", count, key, [7]);
  await until(async () => (await info.get(key)) === "7");
  await master.kill();
  await until(() => !redis.isUp);
  await until(() => redis.isUp);
  assert.equal(await redis.run("test", count, key, [1]), 8);
  assert.equal(await info.get(key), "8", "the replica has become the master");
});

async function startCluster(t: TestContext): Promise<RedisServer[]> {
  const servers: RedisServer[] = [];
  for (let node = 0; node < 3; node++) {
    const settings = ["--cluster-enabled", "yes", "--cluster-node-timeout", "1000"];
    const server = await startRedis(t, settings);
    if (server === undefined) return [];
    servers.push(server);
  }
  const clients = servers.map(({ url }) => new Client(url));
  for (const client of clients) {
    client.on("error", () => {});
    t.after(() => client.disconnect());
  }
  const bounds = [0, 5461, 10_923, 16_384];
  for (const [node, client] of clients.entries()) {
    await client.cluster("ADDSLOTSRANGE", bounds[node] ?? 0, (bounds[node + 1] ?? 0) - 1);
    await client.cluster("MEET", "127.0.0.1", servers[0]?.port ?? 0);
  }
  for (const client of clients) {
    await until(async () => (await client.cluster("INFO")).includes("cluster_state:ok"));
  }
  return servers;
}

test("a Cluster spreads the keys over its nodes, and calls of one moment reach all of them", async (t) => {
  const servers = await startCluster(t);
  const [first] = servers;
  if (first === undefined) return;
  const { redis } = await openRedis(t, `redis+cluster://127.0.0.1:${first.port}`);
  await until(() => redis.isUp);
  const keys = Array.from({ length: 60 }, (_, i) => redis.keyOf("test", String(i)));
  for (let round = 1; round <= 2; round++) {
    const counts = await Promise.all(keys.map((key) => redis.run("test", count, key, [1])));
    assert.deepEqual(new Set(counts), new Set([round]));
  }
  for (const { url } of servers) {
    const client = new Client(url);
    t.after(() => client.disconnect());
    const size = await client.dbsize();
    assert.ok(size > 5 && size < 60, `${size} keys on one node`);
  }
});

test("a Cluster that has lost a node counts as away, and is used again when the node is back", async (t) => {
  const servers = await startCluster(t);
  const [first, second] = servers;
  if (first === undefined || second === undefined) return;
  const { redis } = await openRedis(t, `redis+cluster://127.0.0.1:${first.port}`);
  await until(() => redis.isUp);
  second.signal("SIGSTOP");
  const keys = Array.from({ length: 60 }, (_, i) => redis.keyOf("test", String(i)));
  const calls = await Promise.allSettled(keys.map((key) => redis.run("test", count, key, [1])));
  assert.ok(calls.some(({ status }) => status === "rejected"));
  assert.equal(redis.isUp, false);
  second.signal("SIGCONT");
  await until(async () => {
    if (!redis.isUp) return false;
    const again = await Promise.allSettled(keys.map((key) => redis.run("test", count, key, [1])));
    return again.every(({ status }) => status === "fulfilled");
  });
});
