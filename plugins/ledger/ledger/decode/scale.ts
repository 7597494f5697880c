/** Returned instead of an offset if the bytes are invalid. */
export const broken = -1;

/** The last result of `readCompact`: the value, and the offset after it. One object per thread avoids allocations. */
export const compactResult = { value: 0, next: 0 };

/**
 * Reads a compact length at `at` into `compact`. Returns false if there is none, or if its form is not the shortest
 * one, which parity-scale-codec also refuses. Lengths are at most 2^32 - 1.
 */
export function readCompact(bytes: Uint8Array, at: number, end: number): boolean {
  const first = bytes[at] ?? 0;
  const mode = first & 3;
  const width = mode === 3 ? 5 : 1 << mode;
  if (at < 0 || at + width > end) return false;
  compactResult.next = at + width;
  if (mode === 0) {
    compactResult.value = first >> 2;
    return true;
  }
  const second = bytes[at + 1] ?? 0;
  if (mode === 1) {
    compactResult.value = (first >> 2) | (second << 6);
    return compactResult.value >= 1 << 6;
  }
  const third = bytes[at + 2] ?? 0;
  const fourth = bytes[at + 3] ?? 0;
  if (mode === 2) {
    compactResult.value = ((first | (second << 8) | (third << 16) | (fourth << 24)) >>> 2) >>> 0;
    return compactResult.value >= 1 << 14;
  }
  compactResult.value =
    (second | (third << 8) | (fourth << 16) | ((bytes[at + 4] ?? 0) << 24)) >>> 0;
  return first === 3 && compactResult.value >= 1 << 30;
}

/** Returns the offset after a compact integer, or `broken`. `maxBytes`: width of its type (1, 2, 4, 8, 16 or 32). */
export function skipCompact(bytes: Uint8Array, at: number, end: number, maxBytes: number): number {
  const first = bytes[at] ?? 0;
  if ((first & 3) !== 3) {
    if (!readCompact(bytes, at, end)) return broken;
    const { value, next } = compactResult;
    return maxBytes < 4 && value >= 2 ** (8 * maxBytes) ? broken : next;
  }
  const length = (first >> 2) + 4;
  const next = at + 1 + length;
  if (length > maxBytes || next > end) return broken;
  // In the shortest form, the top byte is not zero, and the value does not fit the four-byte mode.
  const top = bytes[next - 1] ?? 0;
  return top === 0 || (length === 4 && top < 0x40) ? broken : next;
}

/** Reads values in order. After the first invalid value, `hasFailed` is true and every read returns an empty value. */
export class Cursor {
  readonly bytes: Buffer;
  at: number;
  hasFailed = false;

  constructor(bytes: Buffer, at = 0) {
    this.bytes = bytes;
    this.at = at;
  }

  fail(): void {
    this.hasFailed = true;
  }

  u8(): number {
    const at = this.#take(1);
    return this.hasFailed ? 0 : (this.bytes[at] ?? 0);
  }

  u32(): number {
    const at = this.#take(4);
    return this.hasFailed ? 0 : this.bytes.readUInt32LE(at);
  }

  compact(): number {
    if (this.hasFailed || !readCompact(this.bytes, this.at, this.bytes.length)) {
      this.fail();
      return 0;
    }
    this.at = compactResult.next;
    return compactResult.value;
  }

  /** Reads the length of a list. Fails if the rest cannot hold that many elements of at least `elementBytes` each. */
  count(elementBytes: number): number {
    const count = this.compact();
    if (count * elementBytes <= this.bytes.length - this.at) return count;
    this.fail();
    return 0;
  }

  text(): string {
    const length = this.count(1);
    const at = this.#take(length);
    return this.hasFailed ? "" : this.bytes.toString("utf8", at, at + length);
  }

  skip(length: number): void {
    this.#take(length);
  }

  skipText(): void {
    this.#take(this.count(1));
  }

  skipTexts(): void {
    for (let left = this.count(1); left > 0 && !this.hasFailed; left--) this.skipText();
  }

  option(): boolean {
    const tag = this.u8();
    if (tag > 1) this.fail();
    return tag === 1 && !this.hasFailed;
  }

  #take(length: number): number {
    const { at } = this;
    if (this.hasFailed || at + length > this.bytes.length) {
      this.fail();
      return 0;
    }
    this.at = at + length;
    return at;
  }
}

/** Reads a list of elements that take at least one byte each. */
export function readList<T>(cursor: Cursor, read: () => T): T[] {
  const list: T[] = [];
  for (let left = cursor.count(1); left > 0 && !cursor.hasFailed; left--) list.push(read());
  return list;
}
