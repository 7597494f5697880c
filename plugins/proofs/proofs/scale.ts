/**
 * SCALE, the binary encoding of Substrate. All bytes come from nodes, which are not trusted. Browsers run this file,
 * too, so it does not use `Buffer`.
 */

export class ScaleError extends Error {}

export class ScaleReader {
  readonly bytes: Uint8Array;
  at = 0;

  constructor(bytes: Uint8Array) {
    this.bytes = bytes;
  }

  get left(): number {
    return this.bytes.length - this.at;
  }

  /** Returns the next bytes without copying them. */
  take(length: number): Uint8Array {
    if (length > this.left) throw new ScaleError("the bytes end too early");
    return this.bytes.subarray(this.at, (this.at += length));
  }

  u8(): number {
    const byte = this.bytes[this.at];
    if (byte === undefined) throw new ScaleError("the bytes end too early");
    this.at++;
    return byte;
  }

  u32(): number {
    return this.u8() + this.u8() * 2 ** 8 + this.u8() * 2 ** 16 + this.u8() * 2 ** 24;
  }

  u64(): bigint {
    return BigInt(this.u32()) + (BigInt(this.u32()) << 32n);
  }

  /** Reads a compact integer below 2^32. Throws a ScaleError for a larger one, and for one that could be shorter. */
  compact(): number {
    const first = this.u8();
    const mode = first & 3;
    if (mode === 0) return first >> 2;
    if (mode === 1) return atLeast(2 ** 6, (first >> 2) + this.u8() * 2 ** 6);
    if (mode === 2) {
      const rest = this.u8() + this.u8() * 2 ** 8 + this.u8() * 2 ** 16;
      return atLeast(2 ** 14, (first >> 2) + rest * 2 ** 6);
    }
    if (first !== 3) throw new ScaleError("a compact integer is too large");
    return atLeast(2 ** 30, this.u32());
  }

  prefixed(): Uint8Array {
    return this.take(this.compact());
  }

  /** `minBytes`: minimum size of an item, which limits the number of items. */
  list<T>(minBytes: number, read: (reader: this) => T): T[] {
    const length = this.compact();
    if (length * minBytes > this.left) throw new ScaleError("the bytes end too early");
    return Array.from({ length }, () => read(this));
  }
}

export function readScale<T>(bytes: Uint8Array, read: (reader: ScaleReader) => T): T | undefined {
  try {
    return read(new ScaleReader(bytes));
  } catch (error) {
    if (error instanceof ScaleError) return undefined;
    throw error;
  }
}

function atLeast(min: number, value: number): number {
  if (value < min) throw new ScaleError("a compact integer is longer than necessary");
  return value;
}

/** Returns a compact integer. `value`: below 2^32. */
export function compact(value: number): Uint8Array {
  if (value < 2 ** 6) return Uint8Array.of(value << 2);
  if (value < 2 ** 14) return littleEndian(value * 4 + 1, 2);
  if (value < 2 ** 30) return littleEndian(value * 4 + 2, 4);
  return Uint8Array.of(3, ...littleEndian(value, 4));
}

function littleEndian(value: number, length: number): Uint8Array {
  return Uint8Array.from({ length }, (_, at) => Math.floor(value / 2 ** (8 * at)) % 256);
}

export function joinBytes(...parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const joined = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    joined.set(part, at);
    at += part.length;
  }
  return joined;
}

/** Returns a negative number if `a` comes before `b`, 0 if they are equal, else a positive number. */
export function compareBytes(a: Uint8Array, b: Uint8Array): number {
  const common = Math.min(a.length, b.length);
  for (let at = 0; at < common; at++) {
    const difference = (a[at] ?? 0) - (b[at] ?? 0);
    if (difference !== 0) return difference;
  }
  return a.length - b.length;
}

/** Node 24 and its types do not have this method. */
const nativeHex = "toHex" in Uint8Array.prototype && (Uint8Array.prototype.toHex as () => string);

/** Returns bytes as text with `0x`, in lower case. */
export function hexOf(bytes: Uint8Array): string {
  if (nativeHex !== false) return `0x${nativeHex.call(bytes)}`;
  return `0x${Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

export function bytesOf(value: unknown): Uint8Array | undefined {
  if (typeof value !== "string" || !value.startsWith("0x") || value.length % 2 !== 0)
    return undefined;
  // Twice as fast as the native method.
  const bytes = new Uint8Array(value.length / 2 - 1);
  for (let at = 0; at < bytes.length; at++) {
    const high = digits[value.charCodeAt(2 * at + 2)];
    const low = digits[value.charCodeAt(2 * at + 3)];
    if (high === undefined || low === undefined) return undefined;
    bytes[at] = high * 16 + low;
  }
  return bytes;
}

const digits: readonly (number | undefined)[] = Array.from({ length: 128 }, (_, code) => {
  const digit = Number.parseInt(String.fromCharCode(code), 16);
  return Number.isNaN(digit) ? undefined : digit;
});
