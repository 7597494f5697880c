/** A number that all threads of the process add to, and what each of them has added. */
import type { Threads } from "../plugin.ts";

const bytesPerNumber = 8;

export class SharedCount {
  /** The sum, then the part of each thread by its index. */
  readonly #numbers: BigInt64Array;
  readonly #own: number;

  /** `name`: belongs to one count of the process. */
  constructor(threads: Pick<Threads, "index" | "slots" | "memory">, name: string) {
    const bytes = (threads.slots + 1) * bytesPerNumber;
    this.#numbers = new BigInt64Array(threads.memory(name, bytes));
    this.#own = threads.index + 1;
  }

  get total(): number {
    return Number(Atomics.load(this.#numbers, 0));
  }

  add(n: number): void {
    const more = BigInt(n);
    Atomics.add(this.#numbers, this.#own, more);
    Atomics.add(this.#numbers, 0, more);
  }

  /** Adds 1 if the sum stays within `max`. */
  tryEnter(max: number): boolean {
    if (Number(Atomics.add(this.#numbers, 0, 1n)) >= max) {
      Atomics.sub(this.#numbers, 0, 1n);
      return false;
    }
    Atomics.add(this.#numbers, this.#own, 1n);
    return true;
  }

  /** Takes back what a thread has added that has ended. */
  release(index: number): void {
    Atomics.sub(this.#numbers, 0, Atomics.exchange(this.#numbers, index + 1, 0n));
  }
}
