import { readerStates, word, type Command, type SharedRing } from "./ring.ts";

/**
 * The main thread's end of the ring (ring.ts). To write a record, call `claim`, write it, and call `advance`. Then call
 * `publish` for all records that belong together: the reader sees them at once. The length of a record is a multiple of
 * 8 bytes, and a record is contiguous: if it does not fit before the end of the ring, zero words fill the rest.
 */
export class RingWriter {
  readonly bytes: Buffer;
  readonly view: DataView;
  readonly #control: Int32Array;
  readonly #size: number;
  readonly #fullBatchBytes: number;
  /** Bytes since the start. Exact up to 2^53. */
  #next: number;
  #published: number;
  #freed: number;

  /** `fullBatchBytes`: number of waiting bytes at which the reader is woken from the wait between two commits. */
  constructor(ring: SharedRing, fullBatchBytes: number) {
    this.bytes = Buffer.from(ring.data);
    this.view = new DataView(ring.data);
    this.#control = new Int32Array(ring.control);
    this.#size = ring.data.byteLength;
    this.#fullBatchBytes = fullBatchBytes;
    const start = Atomics.load(this.#control, word.tail) >>> 0;
    this.#next = start;
    this.#published = start;
    this.#freed = start;
  }

  /** Position of the next record: the end of everything written so far. */
  get next(): number {
    return this.#next;
  }

  get published(): number {
    return this.#published;
  }

  get freed(): number {
    return this.#freed;
  }

  /** Number of bytes that can be claimed. The largest contiguous piece may be up to one record smaller. */
  get free(): number {
    return this.#size - (this.#next - this.#freed);
  }

  get size(): number {
    return this.#size;
  }

  /** Returns the offset in `bytes` for a record of at most `maxBytes`. The caller must have checked `free`. */
  claim(maxBytes: number): number {
    const at = this.#next % this.#size;
    if (at + maxBytes <= this.#size) return at;
    this.bytes.fill(0, at);
    this.#next += this.#size - at;
    return 0;
  }

  /** Completes the record that was claimed last. `bytes`: its length, a multiple of 8. */
  advance(bytes: number): void {
    this.#next += bytes;
  }

  /**
   * Publishes all records since the last call together. `urgent`: no more records are expected, so the reader commits
   * without waiting.
   */
  publish(urgent: boolean): void {
    const control = this.#control;
    const taken = Atomics.load(control, word.taken);
    const before = (this.#published - taken) >>> 0;
    this.#published = this.#next;
    // ToInt32 reduces the position modulo 2^32.
    Atomics.store(control, word.tail, this.#next | 0);
    const waiting = (this.#next - taken) >>> 0;
    const crossed = before < this.#fullBatchBytes && waiting >= this.#fullBatchBytes;
    // Set after the tail, so that a reader that clears this word sees these records.
    if (urgent) Atomics.store(control, word.urgent, 1);
    const reader = Atomics.load(control, word.readerState);
    // Only a waiting reader is woken, because a wake-up costs a microsecond even if nothing waits.
    if (reader === readerStates.running) return;
    if (
      reader === readerStates.waitingForRecord ||
      crossed ||
      (urgent && reader === readerStates.waitingForBatch)
    )
      this.#wake();
  }

  /** Returns true if the reader has taken records that were published after `position`. */
  hasTakenBeyond(position: number): boolean {
    const taken = Atomics.load(this.#control, word.taken);
    return ((taken - position) | 0) > 0;
  }

  /** Frees everything before `position` (modulo 2^32), which the reader has processed. */
  freeUpTo(position: number): void {
    this.#freed += (position - this.#freed) >>> 0;
  }

  /** Discards all published records. The reader will skip them. */
  discardAll(): void {
    Atomics.store(this.#control, word.discard, this.#published | 0);
    this.#freed = this.#published;
  }

  /** Keeps the published records for the next attempt. */
  keepAll(): void {
    Atomics.store(this.#control, word.discard, this.#freed | 0);
  }

  send(command: Command): void {
    Atomics.store(this.#control, word.command, command);
    this.#wake();
  }

  #wake(): void {
    Atomics.add(this.#control, word.wakeUps, 1);
    Atomics.notify(this.#control, word.wakeUps);
  }
}
