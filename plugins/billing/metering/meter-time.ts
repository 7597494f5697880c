/**
 * The time of a meter. It does not go back if the clock does, so that the journal's times ascend, until the charges of
 * a clock that ran ahead have been moved to the present (redate.ts).
 */
import type { Clock } from "sluice-gateway/plugin";
import { periodOf } from "../leases/months.ts";

export class MeterTime {
  readonly #clock: Clock;
  #newest = 0;
  #period = { start: 0, end: 0 };

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Returns milliseconds since 1970. */
  now(): number {
    const now = this.#clock.now();
    if (now > this.#newest) this.#newest = now;
    return this.#newest;
  }

  get behindMs(): number {
    return Math.max(0, this.#newest - this.#clock.now());
  }

  /** Continues at `newest`, the time of the newest record in the journal, in milliseconds since 1970. */
  moveTo(newest: number): void {
    this.#newest = newest;
    this.#period = { start: 0, end: 0 };
  }

  /** `now`: a result of `now()` that is not before those of earlier calls. */
  periodStart(now: number): number {
    if (now >= this.#period.end) this.#period = periodOf(now);
    return this.#period.start;
  }
}
