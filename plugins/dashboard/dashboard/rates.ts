import { RateLimiterRes } from "rate-limiter-flexible";
import type { AttemptLimiter } from "sluice-gateway/internal/limits";

/** Maximum number of requests per workspace and minute. */
export const perMinute = { keyChanges: 30, reports: 60 };

export type WorkspaceRates = Readonly<Record<keyof typeof perMinute, AttemptLimiter>>;

/** Resolves with undefined if the attempt is allowed. */
export async function rejection(
  limiter: AttemptLimiter,
  caller: string,
): Promise<RateLimiterRes | undefined> {
  try {
    await limiter.consume(caller);
    return undefined;
  } catch (rejected) {
    if (rejected instanceof RateLimiterRes) return rejected;
    throw rejected;
  }
}
