/**
 * Blocks addresses that repeatedly present unknown keys, for a limited time. rate-limiter-flexible counts the failures.
 * If replicas share the counter, a block by another replica takes effect at the next failure.
 */
import { RateLimiterRes } from "rate-limiter-flexible";
import { addressKey } from "sluice-gateway/internal/http";
import type { AttemptLimiter } from "sluice-gateway/internal/limits";
import type { Clock } from "sluice-gateway/plugin";

/**
 * Maximum number of new addresses per window. Further ones are not counted, so that a flood from many networks cannot
 * fill the memory. The rate limit per address still applies to each of them.
 */
const newAddressesPerWindow = 50_000;

export class FailedKeys {
  readonly #limiter: AttemptLimiter;
  readonly #clock: Clock;
  readonly #ipv6Prefix: number;
  /** Monotonic milliseconds at which blocks end, by address key. It is local, so that a check needs no await. */
  readonly #blockedUntil = new Map<string, number>();
  #windowStart: number;
  #newInWindow = 0;

  constructor(limiter: AttemptLimiter, clock: Clock, ipv6Prefix: number) {
    this.#limiter = limiter;
    this.#clock = clock;
    this.#ipv6Prefix = ipv6Prefix;
    this.#windowStart = clock.monotonic();
  }

  /** Returns how long unknown keys from this address are refused without further checks. 0 if it is not blocked. */
  blockedMs(address: string): number {
    if (this.#blockedUntil.size === 0) return 0;
    const key = addressKey(address, this.#ipv6Prefix);
    const until = this.#blockedUntil.get(key);
    if (until === undefined) return 0;
    const left = until - this.#clock.monotonic();
    if (left > 0) return left;
    this.#blockedUntil.delete(key);
    return 0;
  }

  /** If the store fails, no address is blocked. */
  async count(address: string): Promise<void> {
    const now = this.#clock.monotonic();
    if (now - this.#windowStart >= this.#limiter.duration * 1000) this.#nextWindow(now);
    if (this.#newInWindow >= newAddressesPerWindow) return;
    const key = addressKey(address, this.#ipv6Prefix);
    try {
      const counted = await this.#limiter.consume(key);
      if (counted.isFirstInDuration) this.#newInWindow++;
    } catch (rejected) {
      // A rejection with a result means "over the limit", one with an error that the store cannot be reached.
      if (rejected instanceof RateLimiterRes) {
        this.#blockedUntil.set(key, now + rejected.msBeforeNext);
      }
    }
  }

  #nextWindow(now: number): void {
    this.#windowStart = now;
    this.#newInWindow = 0;
    for (const [key, until] of this.#blockedUntil) {
      if (until <= now) this.#blockedUntil.delete(key);
    }
  }
}
