/**
 * Takes a node out after calls to it failed one after the other, and asks for a probe when it has sat out its time:
 * a probe, so that no caller's request is the guinea pig.
 */
import type { Clock } from "../../../../src/services/clock.ts";

const failuresInARow = 5;
const firstMs = 1_000;
const mostMs = 60_000;

export class Breaker {
  readonly #clock: Clock;
  /** Asks for a probe, whose outcome comes back through `probed`. */
  readonly #halfOpen: () => void;
  #inARow = 0;
  #backoffMs = firstMs;
  #until = 0;
  #timer: Disposable | undefined;
  open = false;

  constructor(clock: Clock, halfOpen: () => void) {
    this.#clock = clock;
    this.#halfOpen = halfOpen;
  }

  /** A call failed through the node's fault; true when this is one too many. */
  failed(): boolean {
    this.#inARow++;
    return !this.open && this.#inARow >= failuresInARow;
  }

  /** A call was answered; true when that ends an ejection. */
  succeeded(): boolean {
    if (this.#inARow === 0) return false;
    this.#inARow = 0;
    return this.#close();
  }

  trip(): void {
    // Soon after the last time it sits out longer.
    const recently = this.#clock.monotonic() - this.#until < mostMs && this.#until > 0;
    this.#backoffMs = recently ? Math.min(mostMs, 2 * this.#backoffMs) : firstMs;
    this.open = true;
    this.#sitOut();
  }

  /** A probe has ended; true when that ends an ejection. */
  probed(good: boolean): boolean {
    if (!this.open || this.#clock.monotonic() < this.#until) return false;
    if (good) return this.#close();
    this.#backoffMs = Math.min(mostMs, 2 * this.#backoffMs);
    this.#sitOut();
    return false;
  }

  stop(): void {
    this.#timer?.[Symbol.dispose]();
  }

  #sitOut(): void {
    this.#timer?.[Symbol.dispose]();
    // Up to a quarter longer at random, so that gateways do not come back all at once.
    const ms = Math.round(this.#backoffMs * (1 + Math.random() / 4));
    this.#until = this.#clock.monotonic() + ms;
    this.#timer = this.#clock.after(ms, this.#halfOpen);
  }

  #close(): boolean {
    const was = this.open;
    this.open = false;
    this.#inARow = 0;
    this.#timer?.[Symbol.dispose]();
    return was;
  }
}
