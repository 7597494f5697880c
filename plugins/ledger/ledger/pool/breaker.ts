/**
 * The circuit breaker of a node. It opens after several consecutive failed calls. After a cooldown it requests a probe,
 * so that no caller's request is used to test the node.
 */
import type { Clock } from "../../../../src/services/clock.ts";

const failuresInARow = 5;
const firstMs = 1_000;
const maxMs = 60_000;

export class Breaker {
  readonly #clock: Clock;
  /** Requests a probe, whose outcome is reported to `probed`. */
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

  /** Called when a call failed through the node's fault. Returns true if the breaker must open. */
  failed(): boolean {
    this.#inARow++;
    return !this.open && this.#inARow >= failuresInARow;
  }

  /** Called when a call was answered. Returns true if that ends an ejection. */
  succeeded(): boolean {
    if (this.#inARow === 0) return false;
    this.#inARow = 0;
    return this.#close();
  }

  trip(): void {
    // The cooldown doubles if the breaker opens again soon after the last one.
    const recently = this.#clock.monotonic() - this.#until < maxMs && this.#until > 0;
    this.#backoffMs = recently ? Math.min(maxMs, 2 * this.#backoffMs) : firstMs;
    this.open = true;
    this.#sitOut();
  }

  /** Called when a probe has ended. Returns true if that ends an ejection. */
  probed(good: boolean): boolean {
    if (!this.open || this.#clock.monotonic() < this.#until) return false;
    if (good) return this.#close();
    this.#backoffMs = Math.min(maxMs, 2 * this.#backoffMs);
    this.#sitOut();
    return false;
  }

  stop(): void {
    this.#timer?.[Symbol.dispose]();
  }

  #sitOut(): void {
    this.#timer?.[Symbol.dispose]();
    // Up to a quarter longer at random, so that many gateways do not return at the same time.
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
