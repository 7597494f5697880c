import type { Clock } from "sluice-gateway/plugin";

/** Time for which a client waits for the reference node, before it gets an error. */
export const maxWaitMs = 2_000;

export class HeightWaits {
  readonly #clock: Clock;
  readonly #waits = new Set<() => void>();
  #height = -1;
  #isClosed = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  reached(number: number): void {
    this.#height = Math.max(this.#height, number);
    for (const check of this.#waits) check();
  }

  /** Resolves to true when a block with at least this number is reported, or to false after `maxWaitMs`. */
  async wait(floor: number): Promise<boolean> {
    if (this.#height < floor && !this.#isClosed) {
      const { promise, resolve } = Promise.withResolvers<void>();
      const check = (): void => {
        if (this.#height >= floor || this.#isClosed) resolve();
      };
      this.#waits.add(check);
      using _timer = this.#clock.after(maxWaitMs, resolve);
      await promise;
      this.#waits.delete(check);
    }
    return this.#height >= floor && !this.#isClosed;
  }

  close(): void {
    this.#isClosed = true;
    for (const check of this.#waits) check();
  }
}
