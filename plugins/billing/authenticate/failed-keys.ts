/** Addresses that keep presenting keys that do not exist: counted by rate-limiter-flexible, blocked for a while. */
import { RateLimiterRes, type RateLimiterAbstract } from "rate-limiter-flexible";
import { addressKey, type Clock } from "sluice-gateway/plugin";

/**
 * The most addresses newly counted in one window. Above it newcomers are not counted, so that a flood from many
 * networks cannot fill the memory; each of them is still held by the rate limit of its own address.
 */
const newAddressesPerWindow = 50_000;

/**
 * A limiter of any store: a Redis one brings its `insuranceLimiter`, and other replicas' blocks show on the next
 * failure.
 */
export type FailureLimiter = Pick<RateLimiterAbstract, "consume" | "duration">;

export class FailedKeys {
  readonly #limiter: FailureLimiter;
  readonly #clock: Clock;
  readonly #ipv6Prefix: number;
  /** Address key to the monotonic time, milliseconds, at which its block ends. Local, so that asking costs no await. */
  readonly #blockedUntil = new Map<string, number>();
  #windowStart: number;
  #newInWindow = 0;

  constructor(limiter: FailureLimiter, clock: Clock, ipv6Prefix: number) {
    this.#limiter = limiter;
    this.#clock = clock;
    this.#ipv6Prefix = ipv6Prefix;
    this.#windowStart = clock.monotonic();
  }

  /**
   * For how long, milliseconds, a failing key from this address is refused without being looked at further; 0: it is
   * not.
   */
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

  /** Counts one failed key. Settles when the store has answered; a store that fails blocks nobody. */
  async count(address: string): Promise<void> {
    const now = this.#clock.monotonic();
    if (now - this.#windowStart >= this.#limiter.duration * 1000) this.#nextWindow(now);
    if (this.#newInWindow >= newAddressesPerWindow) return;
    const key = addressKey(address, this.#ipv6Prefix);
    try {
      const counted = await this.#limiter.consume(key);
      if (counted.isFirstInDuration) this.#newInWindow++;
    } catch (rejected) {
      // A rejection with a result means "over the limit"; with an error, that the store is down.
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
