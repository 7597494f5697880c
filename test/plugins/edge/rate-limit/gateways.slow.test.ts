/** Whole gateways, and replicas in real time, that share buckets in Redis. */
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { Redis as Client } from "ioredis";
import { startTestGateway, type TestGateway } from "../../../../plugins/contracts/testing.ts";
import {
  leasedBuckets,
  type LeasedBucket,
} from "../../../../plugins/edge/rate-limit/leased-bucket.ts";
import { createTerms } from "../../../../plugins/edge/rate-limit/terms.ts";
import { systemClock } from "../../../../src/base/clock.ts";
import { startFaultProxy } from "../../../store/fault-proxy.ts";
import { startRedis } from "../../../store/redis-server.ts";
import { openRedis, until } from "../../../store/redis/open-redis.ts";
import { createUpgradedDatabase } from "../../../store/upgraded-database.ts";
import { assertBound, type Admission } from "./simulated-replicas.ts";

const secret = "a secret of this deployment";
const pipeline = `version: 1
secret: "\${GATEWAY_SECRET}"
server: { port: "\${PORT}" }
admin: { port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}", postgres: "\${DATABASE_URL}", redis: "\${REDIS_URL}" }
lists:
  known: [request-id, { authenticate: { failures: 3 } }]
routes:
  - { path: /limited, methods: [GET], run: [{ use: known }, { rate-limit: { rps: 0.001, burst: 40 } }], to: discovery }
  - { path: /checked, methods: [GET], run: [{ use: known }, { authorize: { require: key } }], to: discovery }
`;

async function start(t: TestContext, redis: string): Promise<TestGateway> {
  const database = await createUpgradedDatabase(t, secret);
  return startTestGateway({
    pipeline,
    env: { GATEWAY_SECRET: secret, DATABASE_URL: database, REDIS_URL: redis },
  });
}

async function status(
  { url }: TestGateway,
  path: string,
  headers: Record<string, string> = {},
): Promise<number> {
  const response = await fetch(url + path, { headers });
  await response.text();
  return response.status;
}

test("gateways share buckets and failed keys in Redis, and continue alone without it", async (t) => {
  const server = await startRedis(t, ["--requirepass", "hunter2"]);
  if (server === undefined) return;
  const url = `redis://:hunter2@127.0.0.1:${server.port}`;
  await using one = await start(t, url);
  await using other = await start(t, url);
  const allowed = new Map<TestGateway, number>();
  const send = async (gateways: readonly TestGateway[]): Promise<void> => {
    for (let i = 0; i < 60; i++) {
      const gateway = gateways[i % gateways.length] ?? one;
      if ((await status(gateway, "/limited")) !== 200) continue;
      allowed.set(gateway, (allowed.get(gateway) ?? 0) + 1);
    }
  };
  await send([one, other]);
  const total = (allowed.get(one) ?? 0) + (allowed.get(other) ?? 0);
  // On a busy machine, Redis can count as away for a second. Each gateway then has its own limit.
  assert.ok(
    total === 40 ||
      one.lines.concat(other.lines).some((line) => line.includes("Redis does not answer")),
  );
  const authorization = `Bearer ${one.key.slice(0, -4)}AAAA`;
  for (let i = 0; i < 4; i++) {
    const gateway = i % 2 === 0 ? one : other;
    assert.equal(await status(gateway, "/checked", { authorization }), 401);
  }
  const client = new Client(url);
  t.after(() => client.disconnect());
  const keys = (await client.keys("*")).filter((key) => !key.endsWith(":probe"));
  assert.ok(keys.some((key) => key.startsWith("sluice:1:dev:rate:")));
  assert.ok(keys.some((key) => key.startsWith("sluice:1:dev:failed-key:")));
  for (const key of keys) assert.match(key, /^sluice:1:dev:[a-z-]+:[\w-]{22}$/);
  client.disconnect();

  await server.kill();
  const metrics = async (): Promise<string> => (await fetch(`${one.adminUrl}/metrics`)).text();
  await until(async () => (await metrics()).includes("sluice_store_redis_up 0"));
  await send([one]);
  assert.ok((allowed.get(one) ?? 0) <= 40, "one gateway has no second burst");
  assert.equal(await status(one, "/readyz"), 200);
  await server.start();
  await until(async () => (await metrics()).includes("sluice_store_redis_up 1"));
  assert.match(await metrics(), /sluice_store_round_trips_total\{store="redis",lane="rates"\} \d/);
  for (const shown of [await metrics(), one.lines.join("\n"), other.lines.join("\n")]) {
    assert.doesNotMatch(shown, /hunter2/);
  }
});

test("three replicas on one Redis admit at most burst + rate × time, in real time", async (t) => {
  const server = await startRedis(t);
  if (server === undefined) return;
  const buckets = await replicas(t, server.url, 3);
  const admissions: Admission[] = [];
  let refused = 0;
  const micros = (): number => Math.floor(performance.now() * 1000);
  const end = micros() + 1_500_000;
  await Promise.all(
    buckets.map(async (bucket, replica) => {
      for (let i = 0; micros() < end; i++) {
        const at = micros();
        if (await bucket.take(at)) admissions.push({ start: at, end: micros() });
        else refused++;
        if (i % (5 + 10 * replica) === 0) await new Promise((resolve) => setTimeout(resolve, 1));
        else await new Promise(setImmediate);
      }
    }),
  );
  assertBound(admissions, 200_000, 40);
  assert.ok(refused > 0, "the limit was reached");
  assert.ok(admissions.length > 40, `${admissions.length} admissions`);
});

test("replicas keep to their shares while Redis is killed or hangs, and FLUSHALL fills the bucket once", async (t) => {
  const server = await startRedis(t);
  if (server === undefined) return;
  await using proxy = await startFaultProxy(server.port);
  const buckets = await replicas(t, `redis://127.0.0.1:${proxy.port}`, 3, 0.001);
  const drain = async (): Promise<number[]> =>
    Promise.all(
      buckets.map(async (bucket) => {
        let count = 0;
        while (await bucket.take(Math.floor(performance.now() * 1000))) count++;
        return count;
      }),
    );
  const sum = (counts: readonly number[]): number => counts.reduce((all, each) => all + each, 0);
  assert.equal(sum(await drain()), 40);
  const client = new Client(server.url);
  client.on("error", () => {});
  t.after(() => client.disconnect());
  await client.flushall();
  for (const bucket of buckets) bucket.change(createTerms("key", 0.001, 40), 0);
  assert.equal(sum(await drain()), 40);
  // Each replica has taken more than its share before, so none allows anything alone.
  const shares = 3 * 13;
  server.signal("SIGSTOP");
  for (const bucket of buckets) bucket.change(createTerms("key", 0.001, 40), 0);
  assert.ok(sum(await drain()) <= shares);
  server.signal("SIGCONT");
  await until(async () => (await client.ping()) === "PONG");
  proxy.delayMs = 3_000;
  for (const bucket of buckets) bucket.change(createTerms("key", 0.001, 40), 0);
  assert.ok(sum(await drain()) <= shares);
  proxy.delayMs = 0;
  await server.kill();
  assert.ok(sum(await drain()) <= shares);
});

async function replicas(
  t: TestContext,
  url: string,
  count: number,
  rps = 200,
): Promise<LeasedBucket[]> {
  const terms = createTerms("key", rps, 40);
  return Promise.all(
    Array.from({ length: count }, async () => {
      const { redis } = await openRedis(t, url, { replicas: count });
      await until(() => redis.isUp);
      return leasedBuckets(redis, systemClock, "test")(
        "caller",
        terms,
        Math.floor(performance.now() * 1000),
      );
    }),
  );
}
