/** Counts attempts per caller: in Redis if replicas share one, else in memory. rate-limiter-flexible counts. */
import { RateLimiterMemory, RateLimiterRedis, RateLimiterRes } from "rate-limiter-flexible";
import type { Redis } from "../contract/store.ts";
import type { Threads } from "../contract/threads.ts";

export interface AttemptLimit {
  /** Short word that separates the counters of different uses in Redis. */
  readonly name: string;
  readonly attempts: number;
  readonly windowSeconds: number;
  /** Number of seconds for which a caller is blocked after one more attempt. By default, until the window ends. */
  readonly blockSeconds?: number;
}

export interface AttemptLimiter extends Partial<Disposable> {
  /** Length of the window in seconds. */
  readonly duration: number;
  /** Rejects with RateLimiterRes of rate-limiter-flexible if the caller, such as an address, has too many attempts. */
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

type Attempt = { readonly isFirstInDuration: boolean } | { readonly msBeforeNext: number };

/** Counts in the main thread, so that all threads share the counters. `threads`: `host.threads`. */
export function createSharedAttemptLimiter(threads: Threads, limit: AttemptLimit): AttemptLimiter {
  const name = `attempts ${JSON.stringify(limit)}`;
  if (threads.index === 0) {
    const limiter = createAttemptLimiter(undefined, limit);
    const served = threads.serve(name, async (caller): Promise<Attempt> => {
      try {
        return { isFirstInDuration: (await limiter.consume(String(caller))).isFirstInDuration };
      } catch (rejected) {
        if (!(rejected instanceof RateLimiterRes)) throw rejected;
        return { msBeforeNext: rejected.msBeforeNext };
      }
    });
    return {
      duration: limiter.duration,
      consume: (caller) => limiter.consume(caller),
      [Symbol.dispose]: () => served[Symbol.dispose](),
    };
  }
  return {
    duration: limit.windowSeconds,
    async consume(caller) {
      // The main thread answers with an Attempt.
      const attempt = (await threads.call(name, caller)) as Attempt;
      if ("isFirstInDuration" in attempt) return attempt;
      throw new RateLimiterRes(0, attempt.msBeforeNext);
    },
  };
}
