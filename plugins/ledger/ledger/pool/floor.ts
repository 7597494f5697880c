/**
 * The highest finalized block of an upstream that clients of the process may know, in any thread. It outlives a reload,
 * after which other nodes may be used.
 */
import type { Threads } from "sluice-gateway/plugin";

export class Floor {
  readonly #height: Int32Array;
  #genesis: string | undefined;

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

  /** Blocks of another chain do not count. */
  setChain(genesis: string): void {
    if (this.#genesis !== undefined && this.#genesis !== genesis) this.reset();
    this.#genesis = genesis;
  }

  reset(): void {
    Atomics.store(this.#height, 0, 0);
  }
}
