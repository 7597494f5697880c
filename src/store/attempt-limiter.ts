/** Counts attempts per caller: in Redis if replicas share one, else in memory. rate-limiter-flexible counts. */
import { RateLimiterMemory, RateLimiterRedis } from "rate-limiter-flexible";
import type { Redis } from "../contract/store.ts";

export interface AttemptLimit {
  /** Short word that separates the counters of different uses in Redis. */
  readonly name: string;
  /** Maximum number of attempts of a caller in a window. */
  readonly attempts: number;
  readonly windowSeconds: number;
  /** Number of seconds for which a caller is blocked after one more attempt. By default, until the window ends. */
  readonly blockSeconds?: number;
}

export interface AttemptLimiter {
  /** Length of the window in seconds. */
  readonly duration: number;
  /**
   * Counts an attempt of the caller, for example of an address. Rejects with RateLimiterRes of rate-limiter-flexible if
   * the caller has too many attempts.
   */
  consume(caller: string): Promise<{ readonly isFirstInDuration: boolean }>;
}

/** While Redis does not answer, each replica counts alone. `redis`: `host.store.redis`. */
export function createAttemptLimiter(
  redis: Redis | undefined,
  { name, attempts, windowSeconds, blockSeconds = 0 }: AttemptLimit,
): AttemptLimiter {
  const limits = { points: attempts, duration: windowSeconds, blockDuration: blockSeconds };
  const memory = new RateLimiterMemory(limits);
  if (redis === undefined) return memory;
  const limiter = new RateLimiterRedis({
    ...limits,
    storeClient: redis.client,
    rejectIfRedisNotReady: true,
    insuranceLimiter: memory,
    // A caller that Redis has blocked is refused without asking again.
    inMemoryBlockOnConsumed: attempts + 1,
    inMemoryBlockDuration: blockSeconds,
    keyPrefix: "",
  });
  return {
    duration: windowSeconds,
    consume: (caller) => limiter.consume(redis.keyOf(name, caller)),
  };
}
