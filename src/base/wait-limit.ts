import type { Clock } from "../contract/clock.ts";
import { LinkedList, type Linked } from "./linked-list.ts";

/** Something that waits. Set `previous` and `next` to undefined and `waitingSince` to 0. */
export interface WaitingAs<T> extends Linked<T> {
  /** Start of the wait in monotonic milliseconds. */
  waitingSince: number;
  /** Called once if the wait did not end in time, after it was removed from the list. */
  expired(): void;
}

export interface Waiting extends WaitingAs<Waiting> {}

/**
 * Because all waits have the same limit, one timer for the oldest is enough. A timer per wait would cost each request
 * several microseconds.
 */
export class WaitLimit<T extends WaitingAs<T> = Waiting> {
  readonly limitMs: number;
  readonly #clock: Clock;
  readonly #waiting = new LinkedList<T>();
  #timer: Disposable | undefined;

  constructor(clock: Clock, limitMs: number) {
    this.#clock = clock;
    this.limitMs = limitMs;
  }

  get size(): number {
    return this.#waiting.size;
  }

  get oldest(): T | undefined {
    return this.#waiting.oldest;
  }

  begin(waiting: T): void {
    waiting.waitingSince = this.#clock.monotonic();
    this.#waiting.add(waiting);
    this.#timer ??= this.#clock.after(this.limitMs, this.#expire);
  }

  /** Does nothing if the wait has ended or expired. */
  end(waiting: T): void {
    this.#waiting.remove(waiting);
  }

  /** Stops the timer. Waits that have begun no longer expire. */
  close(): void {
    this.#timer?.[Symbol.dispose]();
  }

  readonly #expire = (): void => {
    this.#timer = undefined;
    const now = this.#clock.monotonic();
    for (let oldest = this.#waiting.oldest; oldest !== undefined; oldest = this.#waiting.oldest) {
      const left = oldest.waitingSince + this.limitMs - now;
      if (left > 0) {
        this.#timer ??= this.#clock.after(left, this.#expire);
        return;
      }
      this.#waiting.remove(oldest);
      oldest.expired();
    }
  };
}
