import type { TestContext } from "node:test";
import { systemClock } from "../../../src/base/clock.ts";
import { createMetrics } from "../../../src/base/metrics.ts";
import { keepingLog } from "../../../src/testing/keeping-log.ts";
import { RedisConnection } from "../../../src/store/redis/redis.ts";
import { createSeal } from "../../../src/store/seal.ts";

export interface TestRedis {
  readonly redis: RedisConnection;
  readonly lines: string[];
  readonly up: () => number | undefined;
}

/** `commandMs` is longer by default than in a gateway, because a busy machine must not fail a test. */
export async function openRedis(
  t: TestContext,
  url: string,
  options: {
    readonly secret?: string;
    readonly replicas?: number;
    readonly commandMs?: number;
  } = {},
): Promise<TestRedis> {
  const { secret = "test", replicas = 1, commandMs = 1_000 } = options;
  const metrics = createMetrics();
  const lines: string[] = [];
  const log = keepingLog(lines);
  const redis = await RedisConnection.open({
    url,
    environment: "dev",
    seal: createSeal(secret),
    clock: systemClock,
    log,
    metrics,
    commandMs,
  });
  redis.setReplicas(replicas);
  t.after(() => redis.close());
  return {
    redis,
    lines,
    up: () => metrics.read("sluice_store_redis_up")[0]?.value,
  };
}

/** Waits until the condition holds. Fails after a minute, because a Cluster on a busy machine needs long to recover. */
export async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  const end = performance.now() + 60_000;
  while (!(await holds())) {
    if (performance.now() > end) throw new Error(`the condition never held: ${String(holds)}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}
