/** Parts that all deliveries of charges share: the waits between turns, and the measurement of the lag. */
import type { Clock, Gauge } from "sluice-gateway/plugin";

/** Waits between the turns of a loop, which `close` ends. */
export class TurnWait {
  isClosed = false;
  readonly #clock: Pick<Clock, "after">;
  #wake: (() => void) | undefined;

  constructor(clock: Pick<Clock, "after">) {
    this.#clock = clock;
  }

  /** Resolves after `ms`, or when the loop must end. */
  wait(ms: number): Promise<void> {
    if (ms === 0 || this.isClosed) return Promise.resolve();
    return new Promise((resolve) => {
      const timer = this.#clock.after(ms, resolve);
      this.#wake = () => {
        timer[Symbol.dispose]();
        resolve();
      };
    });
  }

  /** Ends the current wait and prevents others. */
  close(): void {
    this.isClosed = true;
    this.#wake?.();
  }
}

const everyMs = 1_000;

/** Shows the age of the oldest charge that is not delivered, which grows while nothing is delivered. */
export class LagGauge implements Disposable {
  readonly #clock: Clock;
  readonly #seconds: Gauge;
  readonly #timer: Disposable;
  #since: number | undefined;

  constructor(clock: Clock, seconds: Gauge) {
    this.#clock = clock;
    this.#seconds = seconds;
    this.#timer = clock.every(everyMs, () => this.#show());
  }

  /** Sets the time of the oldest charge that is not delivered. Undefined if all are delivered. */
  set(since: number | undefined): void {
    this.#since = since;
    this.#show();
  }

  [Symbol.dispose](): void {
    this.#timer[Symbol.dispose]();
  }

  #show(): void {
    const ageMs = this.#since === undefined ? 0 : this.#clock.now() - this.#since;
    this.#seconds.set(Math.max(0, ageMs) / 1000);
  }
}
