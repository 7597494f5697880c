/** The number of requests in flight at one worker, of all threads of the process. */
import type { Threads } from "sluice-gateway/plugin";

export class WorkerLoad {
  /** The numbers of the threads, by their indexes. */
  readonly #inFlight: Int32Array;
  readonly #own: number;

  /** `name`: that of the worker. It is used once per network. */
  constructor(threads: Threads | undefined, name: string) {
    const bytes = (threads?.slots ?? 1) * Int32Array.BYTES_PER_ELEMENT;
    const memory = threads?.memory(`load of ${name}`, bytes) ?? new SharedArrayBuffer(bytes);
    this.#inFlight = new Int32Array(memory);
    this.#own = threads?.index ?? 0;
  }

  get total(): number {
    let sum = 0;
    for (let index = 0; index < this.#inFlight.length; index++) {
      sum += Atomics.load(this.#inFlight, index);
    }
    return sum;
  }

  add(n: number): void {
    Atomics.add(this.#inFlight, this.#own, n);
  }

  /** Forgets the requests of a thread that has ended. */
  release(index: number): void {
    Atomics.store(this.#inFlight, index, 0);
  }
}
