import type { Clock } from "sluice-gateway/plugin";

export class EventRate {
  readonly #clock: Clock;
  #since = 0;
  #count = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Counts a message. Returns true if there are more than `max` of them in this second. */
  isAbove(max: number): boolean {
    const now = this.#clock.monotonic();
    if (now - this.#since >= 1000) {
      this.#since = now;
      this.#count = 0;
    }
    return ++this.#count > max;
  }
}
