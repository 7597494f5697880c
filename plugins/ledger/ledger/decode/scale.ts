/** SCALE at its smallest: compact integers, and a cursor that goes dead instead of throwing when bytes run out. */

/** Returned instead of an offset where the bytes are not what they should be. */
export const broken = -1;

/** What `readCompact` has read last: its value, and the offset after it. One object a thread, so that none is made. */
export const compact = { value: 0, next: 0 };

/**
 * Reads a compact length at `at` into `compact`; false where there is none, or where its form is not the shortest one
 * (parity-scale-codec refuses those, too). Lengths are at most 2^32 - 1.
 */
export function readCompact(bytes: Uint8Array, at: number, end: number): boolean {
  const first = bytes[at] ?? 0;
  const mode = first & 3;
  const width = mode === 3 ? 5 : 1 << mode;
  if (at < 0 || at + width > end) return false;
  compact.next = at + width;
  if (mode === 0) {
    compact.value = first >> 2;
    return true;
  }
  const second = bytes[at + 1] ?? 0;
  if (mode === 1) {
    compact.value = (first >> 2) | (second << 6);
    return compact.value >= 1 << 6;
  }
  const third = bytes[at + 2] ?? 0;
  const fourth = bytes[at + 3] ?? 0;
  if (mode === 2) {
    compact.value = ((first | (second << 8) | (third << 16) | (fourth << 24)) >>> 2) >>> 0;
    return compact.value >= 1 << 14;
  }
  compact.value = (second | (third << 8) | (fourth << 16) | ((bytes[at + 4] ?? 0) << 24)) >>> 0;
  return first === 3 && compact.value >= 1 << 30;
}

/**
 * Offset after a compact integer of at most `maxBytes` bytes (1, 2, 4, 8, 16 or 32: the width of the type it stands
 * for), or `broken`.
 */
export function skipCompact(bytes: Uint8Array, at: number, end: number, maxBytes: number): number {
  const first = bytes[at] ?? 0;
  if ((first & 3) !== 3) {
    if (!readCompact(bytes, at, end)) return broken;
    const { value, next } = compact;
    return maxBytes < 4 && value >= 2 ** (8 * maxBytes) ? broken : next;
  }
  const length = (first >> 2) + 4;
  const next = at + 1 + length;
  if (length > maxBytes || next > end) return broken;
  // The shortest form has no zero at its top, and is not used for what the four-byte mode holds.
  const top = bytes[next - 1] ?? 0;
  return top === 0 || (length === 4 && top < 0x40) ? broken : next;
}

/** Reads from the front. After the first thing that does not fit, `dead` is true and every read answers emptily. */
export class Cursor {
  readonly bytes: Buffer;
  at: number;
  dead = false;

  constructor(bytes: Buffer, at = 0) {
    this.bytes = bytes;
    this.at = at;
  }

  /** Marks the bytes as not what they should be. */
  fail(): void {
    this.dead = true;
  }

  u8(): number {
    const at = this.#take(1);
    return this.dead ? 0 : (this.bytes[at] ?? 0);
  }

  u32(): number {
    const at = this.#take(4);
    return this.dead ? 0 : this.bytes.readUInt32LE(at);
  }

  compact(): number {
    if (this.dead || !readCompact(this.bytes, this.at, this.bytes.length)) {
      this.fail();
      return 0;
    }
    this.at = compact.next;
    return compact.value;
  }

  /** The length of a list whose elements take at least `elementBytes` each: never more than what is left can hold. */
  count(elementBytes: number): number {
    const count = this.compact();
    if (count * elementBytes <= this.bytes.length - this.at) return count;
    this.fail();
    return 0;
  }

  text(): string {
    const length = this.count(1);
    const at = this.#take(length);
    return this.dead ? "" : this.bytes.toString("utf8", at, at + length);
  }

  skip(length: number): void {
    this.#take(length);
  }

  skipText(): void {
    this.#take(this.count(1));
  }

  /** A list of texts that nobody wants: documentation. */
  skipTexts(): void {
    for (let left = this.count(1); left > 0 && !this.dead; left--) this.skipText();
  }

  /** True for Some. */
  option(): boolean {
    const tag = this.u8();
    if (tag > 1) this.fail();
    return tag === 1 && !this.dead;
  }

  #take(length: number): number {
    const { at } = this;
    if (this.dead || at + length > this.bytes.length) {
      this.fail();
      return 0;
    }
    this.at = at + length;
    return at;
  }
}

/** A list of things that take at least a byte each. */
export function readList<T>(cursor: Cursor, read: () => T): T[] {
  const list: T[] = [];
  for (let left = cursor.count(1); left > 0 && !cursor.dead; left--) list.push(read());
  return list;
}
