/** Numbers that all threads of the process add to, and what each of them has added. */
import { hash, randomInt } from "node:crypto";
import type { Threads } from "../plugin.ts";

type Sharing = Pick<Threads, "index" | "slots" | "memory">;

const bytesPerNumber = BigInt64Array.BYTES_PER_ELEMENT;
/** Number of counts of `SharedCounts`. */
const rows = 4_096;

export class SharedCount {
  /** The sum, then the part of each thread by its index. */
  readonly #numbers: BigInt64Array;
  readonly #own: number;

  /** `name`: belongs to one count of the process. */
  static open(threads: Sharing, name: string): SharedCount {
    const bytes = (threads.slots + 1) * bytesPerNumber;
    return new SharedCount(new BigInt64Array(threads.memory(name, bytes)), threads.index);
  }

  constructor(numbers: BigInt64Array, thread: number) {
    this.#numbers = numbers;
    this.#own = thread + 1;
  }

  get total(): number {
    return Number(Atomics.load(this.#numbers, 0));
  }

  add(n: number): void {
    const more = BigInt(n);
    Atomics.add(this.#numbers, this.#own, more);
    Atomics.add(this.#numbers, 0, more);
  }

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

/** Counts by the name of a caller. Callers whose names have the same hash share a count, which none of them can predict. */
export class SharedCounts {
  readonly #numbers: BigInt64Array;
  readonly #thread: number;
  readonly #perRow: number;
  readonly #seed: number;

  constructor(threads: Sharing, name: string) {
    this.#thread = threads.index;
    this.#perRow = threads.slots + 1;
    const numbers = rows * this.#perRow;
    this.#numbers = new BigInt64Array(threads.memory(name, (numbers + 1) * bytesPerNumber));
    const seed = BigInt(randomInt(1, 2 ** 32));
    // The first thread chooses the seed.
    const known = Atomics.compareExchange(this.#numbers, numbers, 0n, seed);
    this.#seed = Number(known === 0n ? seed : known);
  }

  of(caller: string): SharedCount {
    const digest = hash("sha256", `${this.#seed} ${caller}`, "buffer");
    return this.#row(digest.readUInt32LE() % rows);
  }

  release(index: number): void {
    for (let row = 0; row < rows; row++) this.#row(row).release(index);
  }

  #row(row: number): SharedCount {
    const first = row * this.#perRow;
    return new SharedCount(this.#numbers.subarray(first, first + this.#perRow), this.#thread);
  }
}
