/** Requests in flight at the workers of a network, of all threads of the process. */
import { hash } from "node:crypto";
import type { Threads } from "sluice-gateway/plugin";

/** Maximum number of workers whose requests the threads count together. A network can list others all the time. */
const maxRows = 4_096;
const maxProbes = 64;

export class WorkerLoads implements Disposable {
  readonly #threads: Pick<Threads, "index" | "slots"> | undefined;
  /** A digest of the id of the row's worker. 0 if the row is free. */
  readonly #rows: BigInt64Array;
  /** Each row has a number for each thread. */
  readonly #numbers: Int32Array;
  readonly #ended: Disposable | undefined;

  constructor(
    threads: Pick<Threads, "index" | "slots" | "memory" | "onEnded"> | undefined,
    network: string,
  ) {
    this.#threads = threads;
    const memory = (name: string, bytes: number): ArrayBufferLike =>
      threads?.memory(`${name} of ${network}`, bytes) ?? new ArrayBuffer(0);
    this.#rows = new BigInt64Array(memory("workers", maxRows * BigInt64Array.BYTES_PER_ELEMENT));
    const numbers = maxRows * (threads?.slots ?? 0);
    this.#numbers = new Int32Array(memory("load", numbers * Int32Array.BYTES_PER_ELEMENT));
    if (threads?.index === 0) this.#ended = threads.onEnded((index) => this.#release(index));
  }

  /** If no row is free, each thread counts alone. */
  of(workerId: string): WorkerLoad {
    const row = this.#rowOf(workerId);
    if (row === undefined || this.#threads === undefined) return new WorkerLoad(new Int32Array(1));
    const { index, slots } = this.#threads;
    return new WorkerLoad(this.#numbers.subarray(row * slots, (row + 1) * slots), index);
  }

  [Symbol.dispose](): void {
    this.#ended?.[Symbol.dispose]();
  }

  #rowOf(workerId: string): number | undefined {
    if (this.#threads === undefined) return undefined;
    const digest = hash("sha256", workerId, "buffer").readBigInt64LE();
    const first = Number(BigInt.asUintN(32, digest));
    for (let probe = 0; probe < maxProbes; probe++) {
      const row = (first + probe) % maxRows;
      const known = Atomics.compareExchange(this.#rows, row, 0n, digest);
      if (known === 0n || known === digest) return row;
    }
    return undefined;
  }

  /** Forgets the requests of a thread that has ended. */
  #release(index: number): void {
    const slots = this.#threads?.slots ?? 1;
    for (let at = index; at < this.#numbers.length; at += slots)
      Atomics.store(this.#numbers, at, 0);
  }
}

export class WorkerLoad {
  readonly #inFlight: Int32Array;
  readonly #own: number;

  constructor(inFlight: Int32Array, own = 0) {
    this.#inFlight = inFlight;
    this.#own = own;
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
}
