/** A request may not arrive slower than 64 KiB in any 10 s after the first second (decisions.md section 13). */
import type { Clock } from "../contract/clock.ts";

export const arrivalGraceMs = 1_000;
export const arrivalWindowMs = 10_000;
export const minArrivalBytes = 64 * 1024;

/** Watches one request from its first bytes. Dispose when the request is complete or abandoned. */
export class ArrivalRate implements Disposable {
  readonly #clock: Clock;
  readonly #tooSlow: () => void;
  #bytes = 0;
  #timer: Disposable;

  /** `tooSlow`: called once if too little arrived within a window of 10 s. */
  constructor(clock: Clock, tooSlow: () => void) {
    this.#clock = clock;
    this.#tooSlow = tooSlow;
    this.#timer = clock.after(arrivalGraceMs, () => this.#watch());
  }

  add(bytes: number): void {
    this.#bytes += bytes;
  }

  [Symbol.dispose](): void {
    this.#timer[Symbol.dispose]();
  }

  #watch(): void {
    this.#bytes = 0;
    this.#timer = this.#clock.after(arrivalWindowMs, () => {
      if (this.#bytes < minArrivalBytes) this.#tooSlow();
      else this.#watch();
    });
  }
}
