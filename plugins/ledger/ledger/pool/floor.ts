/** The highest finalized block that clients of any thread of the process may know. */
import type { Threads } from "sluice-gateway/plugin";

export class Floor {
  readonly #height: Int32Array;

  constructor(threads: Threads | undefined, pool: string) {
    const bytes = Int32Array.BYTES_PER_ELEMENT;
    const memory = threads?.memory(`floor of ${pool}`, bytes) ?? new SharedArrayBuffer(bytes);
    this.#height = new Int32Array(memory);
  }

  get height(): number {
    return Atomics.load(this.#height, 0);
  }

  raise(height: number): void {
    for (let known = this.height; known < height; known = this.height) {
      if (Atomics.compareExchange(this.#height, 0, known, height) === known) return;
    }
  }

  reset(): void {
    Atomics.store(this.#height, 0, 0);
  }
}
