/** The time of a meter. It never goes back, even if the clock does, so that the journal's times ascend. */
import type { Clock } from "sluice-gateway/plugin";
import { periodOf } from "./periods.ts";

export class MeterTime {
  readonly #clock: Clock;
  #newest: number;
  #period = { start: 0, end: 0 };

  /** `newest`: time of the newest record in the journal, in milliseconds since 1970. */
  constructor(clock: Clock, newest: number) {
    this.#clock = clock;
    this.#newest = newest;
  }

  /** Returns the latest time seen, in milliseconds since 1970. */
  now(): number {
    const now = this.#clock.now();
    if (now > this.#newest) this.#newest = now;
    return this.#newest;
  }

  /** Returns the start of the billing period at `now`, a result of `now()`. */
  periodStart(now: number): number {
    if (now >= this.#period.end) this.#period = periodOf(now);
    return this.#period.start;
  }
}
