import type { Clock } from "sluice-gateway/plugin";
import { whenAborted } from "./provider.ts";

/** Intel publishes new collateral about once a day and AMD a new revocation list less often. Both are valid for weeks. */
const freshMs = 3_600_000;
const retryMs = 60_000;
const timeoutMs = 5_000;

/**
 * A value that is fetched at most once per hour, and once per minute while the fetch fails. Until a newer value has
 * arrived, the previous one is used, because it stays valid until its own expiry date.
 */
export class HourlyValue<T> {
  readonly #clock: Clock;
  #value: T | undefined;
  /** Monotonic milliseconds. */
  #nextAt = -Infinity;
  #fetching: Promise<void> | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * Undefined if the value has never been available. `fetchValue`: may reject, and resolves to undefined if the fetched
   * value is invalid. `signal`: ends the wait but not the fetch, because other callers also need its value.
   */
  async get(
    fetchValue: (signal: AbortSignal) => Promise<T | undefined>,
    signal: AbortSignal,
  ): Promise<T | undefined> {
    if (this.#clock.monotonic() >= this.#nextAt) {
      this.#nextAt = this.#clock.monotonic() + retryMs;
      this.#fetching = this.#fetch(fetchValue);
    }
    // Callers at the same time share one fetch.
    await Promise.race([this.#fetching, whenAborted(signal)]);
    return this.#value;
  }

  async #fetch(fetchValue: (signal: AbortSignal) => Promise<T | undefined>): Promise<void> {
    const late = new AbortController();
    using _limit = this.#clock.after(timeoutMs, () => late.abort());
    const fetched = fetchValue(late.signal).catch(() => undefined);
    const found = await Promise.race([fetched, whenAborted(late.signal)]);
    if (found === undefined) return;
    this.#nextAt = this.#clock.monotonic() + freshMs;
    this.#value = found;
  }
}
