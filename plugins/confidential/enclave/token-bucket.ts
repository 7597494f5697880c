/** How often something dear may be asked for: `burst` at once, then one each `everyMs`. */
import type { Clock } from "../../../src/services/clock.ts";

/** Whether it may be asked for now; then it counts. */
export type TakeToken = () => boolean;

export function createTokenBucket(burst: number, everyMs: number, clock: Clock): TakeToken {
  let left = burst;
  let at = clock.monotonic();
  return () => {
    const now = clock.monotonic();
    left = Math.min(burst, left + (now - at) / everyMs);
    at = now;
    if (left < 1) return false;
    left--;
    return true;
  };
}
