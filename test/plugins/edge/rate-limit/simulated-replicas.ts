/** Replicas with leased buckets on a real Redis, in a time that only the test moves. */
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { Redis as Client } from "ioredis";
import {
  leasedBuckets,
  type LeasedBucket,
} from "../../../../plugins/edge/rate-limit/leased-bucket.ts";
import type { BucketTerms } from "../../../../plugins/edge/rate-limit/terms.ts";
import type { Redis } from "../../../../src/plugin.ts";
import { manualClock, type ManualClock } from "../../../../src/testing/clock.ts";
import { startRedis } from "../../../store/redis-server.ts";

export interface Reply {
  arrive(): void;
  /** Loses the answer: the replica sees a time-out. */
  lose(): void;
}

export interface SimulatedRedis {
  readonly clock: ManualClock;
  readonly redis: Redis & { isUp: boolean; replicas: number };
  /** Answers that have not arrived, oldest first. Empty unless `isDelayed`. */
  readonly replies: Reply[];
  /** Whether answers wait for `arrive` or `lose`. */
  isDelayed: boolean;
  nextReply(): Promise<Reply>;
  calls: number;
  /** Milliseconds by which the clock of Redis is ahead. */
  redisAheadMs: number;
  /** Returns the bucket of a new replica. `caller`: by default, all have the same caller. */
  bucket(terms: BucketTerms, caller?: string): LeasedBucket;
  readonly client: Client;
}

export function microsOf({ clock }: Pick<SimulatedRedis, "clock">): number {
  return Math.floor(clock.monotonic() * 1000);
}

const epochMicros = 1_800_000_000_000_000;

/** Undefined if Redis is not installed, and the test is skipped. */
export async function simulateRedis(t: TestContext): Promise<SimulatedRedis | undefined> {
  const server = await startRedis(t);
  if (server === undefined) return undefined;
  const client = new Client(server.url);
  client.on("error", () => {});
  t.after(() => client.disconnect());
  const clock = manualClock();
  const replies: Reply[] = [];
  const redis: SimulatedRedis["redis"] = {
    isUp: true,
    replicas: 3,
    setReplicas: (count) => (redis.replicas = count),
    client,
    keyOf: (kind, name) => `${kind}:${name}`,
    async run(_, script, key, args) {
      simulated.calls++;
      // The script sees the simulated time instead of the server's.
      const micros = epochMicros + microsOf(simulated) + simulated.redisAheadMs * 1000;
      const time = `{ ${Math.floor(micros / 1e6)}, ${micros % 1e6} }`;
      const text = script.replace("redis.call('TIME')", () => time);
      // A delayed answer has been computed when this promise is fulfilled.
      const answer = await client.eval(text, 1, key, ...args);
      if (!simulated.isDelayed) return answer;
      return new Promise((resolve, reject) => {
        replies.push({
          arrive: () => resolve(answer),
          lose: () => reject(new Error("time-out")),
        });
      });
    },
  };
  const simulated: SimulatedRedis = {
    clock,
    redis,
    replies,
    isDelayed: false,
    async nextReply() {
      for (;;) {
        const reply = replies.shift();
        if (reply !== undefined) return reply;
        await client.ping();
      }
    },
    calls: 0,
    redisAheadMs: 0,
    client,
    bucket: (terms, caller = "caller") =>
      leasedBuckets(redis, clock, "test")(caller, terms, microsOf(simulated)),
  };
  return simulated;
}

/** An admitted request: times of the request and of the decision in microseconds. */
export interface Admission {
  readonly start: number;
  readonly end: number;
}

/**
 * Asserts for each pair i, j of admissions: those that began after i began and ended before j ended are at most burst +
 * rate × time. `rate`: thousandths of a request per second.
 */
export function assertBound(
  admissions: readonly Admission[],
  rate: number,
  capacity: number,
): void {
  const byEnd = admissions.toSorted((a, b) => a.end - b.end);
  for (const start of new Set(admissions.map((each) => each.start))) {
    let count = 0;
    for (const each of byEnd) {
      if (each.start < start) continue;
      count++;
      const allowed = capacity * 1e9 + rate * (each.end - start);
      assert.ok(count * 1e9 <= allowed, `${count} requests within ${each.end - start} µs`);
    }
  }
}

/** Declares a test with replicas on a real Redis. It is skipped if Redis is not installed. */
export function simulatedTest(
  title: string,
  run: (simulated: SimulatedRedis) => Promise<void>,
): void {
  test(title, async (t) => {
    const simulated = await simulateRedis(t);
    if (simulated !== undefined) await run(simulated);
  });
}
