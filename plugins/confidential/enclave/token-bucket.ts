/** A token bucket: `burst` at once, then one per `everyMs`. */
import type { Clock } from "sluice-gateway/plugin";

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
