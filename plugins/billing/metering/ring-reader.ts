import { command, readerStates, word, type SharedRing } from "./ring.ts";

/** The journal thread's end of the ring (ring.ts). Waiting blocks the thread. */
export class RingReader {
  readonly #data: Uint8Array;
  readonly #control: Int32Array;
  /** Bytes since the start, modulo 2^32. */
  #head: number;

  constructor(ring: SharedRing) {
    this.#data = new Uint8Array(ring.data);
    this.#control = new Int32Array(ring.control);
    this.#head = Atomics.load(this.#control, word.taken);
  }

  /** Start of the next group, for `RingWriter.freeUpTo`. */
  get head(): number {
    return this.#head;
  }

  get command(): number {
    return Atomics.load(this.#control, word.command);
  }

  /** Waits until a record is published or the command is `close`. */
  waitForWork(): void {
    for (;;) {
      const bell = Atomics.load(this.#control, word.wakeUps);
      Atomics.store(this.#control, word.readerState, readerStates.waitingForRecord);
      // Read after the state was set: a writer that published before that did not wake this thread.
      if (this.isEmpty && this.command !== command.close) {
        Atomics.wait(this.#control, word.wakeUps, bell);
      }
      Atomics.store(this.#control, word.readerState, readerStates.running);
      if (!this.isEmpty || this.command === command.close) return;
    }
  }

  /**
   * Waits up to `ms` for more records. Returns early when `fullBatchBytes` are waiting, or when the writer signals that
   * no more are expected. With `waitForFull` that signal is ignored: after a large commit, more records are likely to
   * follow.
   */
  waitForBatch(ms: number, fullBatchBytes: number, waitForFull: boolean): void {
    if (ms <= 0 || this.command === command.close) return;
    const bell = Atomics.load(this.#control, word.wakeUps);
    Atomics.store(
      this.#control,
      word.readerState,
      waitForFull ? readerStates.waitingForFullBatch : readerStates.waitingForBatch,
    );
    // Read after the state was set: a writer that published before that did not wake this thread.
    const waiting = (Atomics.load(this.#control, word.tail) - this.#head) >>> 0;
    const isUrgent = !waitForFull && Atomics.load(this.#control, word.urgent) === 1;
    if (!isUrgent && waiting < fullBatchBytes) Atomics.wait(this.#control, word.wakeUps, bell, ms);
    Atomics.store(this.#control, word.readerState, readerStates.running);
  }

  /** Waits for the next command and returns it. */
  waitForCommand(): number {
    for (;;) {
      const bell = Atomics.load(this.#control, word.wakeUps);
      const received = Atomics.exchange(this.#control, word.command, command.none);
      if (received !== command.none) return received;
      Atomics.wait(this.#control, word.wakeUps, bell);
    }
  }

  /** Returns a copy of all published records. Call `done` to free their memory. */
  take(): Buffer {
    Atomics.store(this.#control, word.urgent, 0);
    const tail = Atomics.load(this.#control, word.tail);
    Atomics.store(this.#control, word.taken, tail);
    return this.#copy(tail);
  }

  /** Marks the last taken group as processed. */
  done(): void {
    this.#head = Atomics.load(this.#control, word.taken);
  }

  /** Returns the records that the writer has discarded, and skips them. */
  discard(): Buffer {
    const discardedUpTo = Atomics.load(this.#control, word.discard);
    const until = ((discardedUpTo - this.#head) | 0) > 0 ? discardedUpTo : this.#head;
    const records = this.#copy(until);
    this.#head = until;
    Atomics.store(this.#control, word.taken, until);
    return records;
  }

  /** True if all published records have been processed. */
  get isEmpty(): boolean {
    return Atomics.load(this.#control, word.tail) === this.#head;
  }

  #copy(until: number): Buffer {
    const size = this.#data.length;
    const length = (until - this.#head) >>> 0;
    const copy = Buffer.allocUnsafe(length);
    const start = (this.#head >>> 0) % size;
    const first = Math.min(length, size - start);
    copy.set(this.#data.subarray(start, start + first));
    copy.set(this.#data.subarray(0, length - first), first);
    return copy;
  }
}
