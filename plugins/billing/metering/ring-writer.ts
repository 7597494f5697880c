/** The main thread's end of the ring (ring.ts). */
import { waits, word, type Command, type SharedRing } from "./ring.ts";

/**
 * The main thread's end. Claim a record, write it, `advance`; then `publish` all that belong together: the reader sees
 * them at once. Records are multiples of 8 bytes and lie in one piece: zero words fill the end of the ring where one
 * does not fit.
 */
export class RingWriter {
  readonly bytes: Buffer;
  readonly view: DataView;
  readonly #control: Int32Array;
  readonly #size: number;
  readonly #nudgeBytes: number;
  /** Bytes since the start: exact up to 2^53. */
  #next: number;
  #published: number;
  #freed: number;

  /** `nudgeBytes`: when so much waits, the reader is woken from the pause between two commits. */
  constructor(ring: SharedRing, nudgeBytes: number) {
    this.bytes = Buffer.from(ring.data);
    this.view = new DataView(ring.data);
    this.#control = new Int32Array(ring.control);
    this.#size = ring.data.byteLength;
    this.#nudgeBytes = nudgeBytes;
    const start = Atomics.load(this.#control, word.tail) >>> 0;
    this.#next = start;
    this.#published = start;
    this.#freed = start;
  }

  /** Where the next record goes: the end of all that was written. */
  get next(): number {
    return this.#next;
  }

  get published(): number {
    return this.#published;
  }

  get freed(): number {
    return this.#freed;
  }

  /** Bytes that can be claimed; up to one record less in one piece. */
  get free(): number {
    return this.#size - (this.#next - this.#freed);
  }

  get size(): number {
    return this.#size;
  }

  /** The offset in `bytes` of a record of at most `maxBytes`. The caller has checked `free`. */
  claim(maxBytes: number): number {
    const at = this.#next % this.#size;
    if (at + maxBytes <= this.#size) return at;
    this.bytes.fill(0, at);
    this.#next += this.#size - at;
    return 0;
  }

  /** The record claimed last is written and has `bytes`, a multiple of 8. */
  advance(bytes: number): void {
    this.#next += bytes;
  }

  /** Hands over all records since the last call, together. `urgent`: nothing will join them, commit without a pause. */
  publish(urgent: boolean): void {
    const control = this.#control;
    const taken = Atomics.load(control, word.taken);
    const before = (this.#published - taken) >>> 0;
    this.#published = this.#next;
    // ToInt32 takes the position modulo 2^32.
    Atomics.store(control, word.tail, this.#next | 0);
    const waiting = (this.#next - taken) >>> 0;
    const crossed = before < this.#nudgeBytes && waiting >= this.#nudgeBytes;
    // After the tail: a reader that clears the word sees these records.
    if (urgent) Atomics.store(control, word.urgent, 1);
    const reader = Atomics.load(control, word.asleep);
    // Only a reader that waits is woken: a bell that nobody hears still costs its microsecond.
    if (reader === waits.awake) return;
    if (reader === waits.record || crossed || (urgent && reader === waits.company)) this.#ring();
  }

  /** True when the reader has picked up something that was published after `position`. */
  hasTakenBeyond(position: number): boolean {
    const taken = Atomics.load(this.#control, word.taken);
    return ((taken - position) | 0) > 0;
  }

  /** The reader has done with everything before `position` (as it said it, modulo 2^32). */
  free32(position: number): void {
    this.#freed += (position - this.#freed) >>> 0;
  }

  /** Forgets all that was published: the reader will skip it. */
  discardAll(): void {
    Atomics.store(this.#control, word.discard, this.#published | 0);
    this.#freed = this.#published;
  }

  /** Keeps what was published for the next try. */
  keepAll(): void {
    Atomics.store(this.#control, word.discard, this.#freed | 0);
  }

  tell(what: Command): void {
    Atomics.store(this.#control, word.command, what);
    this.#ring();
  }

  #ring(): void {
    Atomics.add(this.#control, word.bell, 1);
    Atomics.notify(this.#control, word.bell);
  }
}
