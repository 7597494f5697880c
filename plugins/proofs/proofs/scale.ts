/** Reads SCALE, the binary encoding of Substrate. All bytes come from nodes, which are not trusted. */

/** Bytes that are not what the reader expects. */
export class ScaleError extends Error {}

export class ScaleReader {
  readonly bytes: Uint8Array;
  /** Position of the next byte. */
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

  /** Reads bytes with their length before them. */
  prefixed(): Uint8Array {
    return this.take(this.compact());
  }

  /** `minBytes`: minimum size of an item, which limits the number of items that are read. */
  list<T>(minBytes: number, read: (reader: this) => T): T[] {
    const length = this.compact();
    if (length * minBytes > this.left) throw new ScaleError("the bytes end too early");
    return Array.from({ length }, () => read(this));
  }
}

/** Calls `read`. Returns undefined if the bytes are not what it expects. */
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
  const buffer = Buffer.alloc(5);
  if (value < 2 ** 6) return buffer.fill(value << 2, 0, 1).subarray(0, 1);
  if (value < 2 ** 14) return buffer.subarray(0, buffer.writeUInt16LE(value * 4 + 1));
  if (value < 2 ** 30) return buffer.subarray(0, buffer.writeUInt32LE(value * 4 + 2));
  buffer[0] = 3;
  return buffer.subarray(0, buffer.writeUInt32LE(value, 1));
}

/** Returns bytes as text with `0x`, in lower case. */
export function hexOf(bytes: Uint8Array): string {
  return `0x${Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString("hex")}`;
}

/** Returns the bytes of a text with `0x`. Undefined if `value` is not such a text. */
export function bytesOf(value: unknown): Buffer | undefined {
  if (typeof value !== "string" || !value.startsWith("0x") || value.length % 2 !== 0)
    return undefined;
  const bytes = Buffer.from(value.slice(2), "hex");
  return bytes.length === value.length / 2 - 1 ? bytes : undefined;
}
