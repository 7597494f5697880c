/** The journal thread's end of the ring (ring.ts). */
import { command, waits, word, type SharedRing } from "./ring.ts";

/** The journal thread's end. Its waits block the thread. */
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

  /** Where the next group starts, as `RingWriter.free32` wants it. */
  get head(): number {
    return this.#head;
  }

  get command(): number {
    return Atomics.load(this.#control, word.command);
  }

  /** Waits until there is a record, or the command to close. */
  waitForWork(): void {
    for (;;) {
      const bell = Atomics.load(this.#control, word.bell);
      Atomics.store(this.#control, word.asleep, waits.record);
      // Read after `asleep` was set: a writer that published before it did not ring.
      if (this.isEmpty && this.command !== command.close) {
        Atomics.wait(this.#control, word.bell, bell);
      }
      Atomics.store(this.#control, word.asleep, waits.awake);
      if (!this.isEmpty || this.command === command.close) return;
    }
  }

  /**
   * Waits `ms` for more to gather; ends early when `enoughBytes` have, or when the writer says that nothing more will,
   * unless the reader is `patient`: where many came together the last time, others are on their way.
   */
  pause(ms: number, enoughBytes: number, patient: boolean): void {
    if (ms <= 0 || this.command === command.close) return;
    const bell = Atomics.load(this.#control, word.bell);
    Atomics.store(this.#control, word.asleep, patient ? waits.crowd : waits.company);
    // Read after `asleep` was set: a writer that published before it did not ring.
    const waiting = (Atomics.load(this.#control, word.tail) - this.#head) >>> 0;
    const inVain = !patient && Atomics.load(this.#control, word.urgent) === 1;
    if (!inVain && waiting < enoughBytes) Atomics.wait(this.#control, word.bell, bell, ms);
    Atomics.store(this.#control, word.asleep, waits.awake);
  }

  /** Waits for the next command and takes it. */
  waitForCommand(): number {
    for (;;) {
      const bell = Atomics.load(this.#control, word.bell);
      const given = Atomics.exchange(this.#control, word.command, command.none);
      if (given !== command.none) return given;
      Atomics.wait(this.#control, word.bell, bell);
    }
  }

  /** A copy of all that is published; `done` makes room for more. */
  take(): Buffer {
    Atomics.store(this.#control, word.urgent, 0);
    const tail = Atomics.load(this.#control, word.tail);
    Atomics.store(this.#control, word.taken, tail);
    return this.#copy(tail);
  }

  /** The group taken last is dealt with. */
  done(): void {
    this.#head = Atomics.load(this.#control, word.taken);
  }

  /** What the writer has given up, and steps over it. */
  discard(): Buffer {
    const said = Atomics.load(this.#control, word.discard);
    const until = ((said - this.#head) | 0) > 0 ? said : this.#head;
    const records = this.#copy(until);
    this.#head = until;
    Atomics.store(this.#control, word.taken, until);
    return records;
  }

  /** Nothing is published that was not dealt with. */
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
