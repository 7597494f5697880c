/** Damaged bytes: what a hostile or broken sender makes of a valid message. */
import * as fc from "fast-check";

interface Change {
  readonly kind: "byte" | "bit" | "remove" | "repeat" | "cut" | "insert";
  /** Position, as a fraction of the length. */
  readonly at: number;
  readonly length: number;
  readonly byte: number;
  readonly inserted: Uint8Array;
}

/** Bytes that overflow a length or a count: a compact integer of SCALE, 32-bit fields, opening brackets. */
const blowUps = [
  Uint8Array.of(3, 255, 255, 255, 255),
  Uint8Array.of(0xff, 0xff, 0xff, 0xff),
  Uint8Array.of(0, 0, 0, 0x80),
  Uint8Array.of(0, 0, 0, 0),
  Buffer.from('"'),
  Buffer.from("[{"),
  Buffer.from("\\u0000"),
  Buffer.from("\r\n"),
];

const change: fc.Arbitrary<Change> = fc.record({
  kind: fc.constantFrom("byte", "bit", "remove", "repeat", "cut", "insert"),
  // The beginning of a message usually decides how it is read.
  at: fc.oneof(
    fc.double({ min: 0, max: 1, noNaN: true }),
    fc.double({ min: 0, max: 0.05, noNaN: true }),
  ),
  length: fc.integer({ min: 1, max: 8 }),
  byte: fc.nat(255),
  inserted: fc.oneof(
    fc.uint8Array({ minLength: 1, maxLength: 6 }),
    fc.constantFrom<Uint8Array>(...blowUps),
  ),
});

/** `originals` with up to `most` changes. Without a change it is the original. */
export function mutantsOf(originals: fc.Arbitrary<Uint8Array>, most = 3): fc.Arbitrary<Buffer> {
  return fc
    .tuple(originals, fc.array(change, { maxLength: most }))
    .map(([original, changes]) => changes.reduce(changed, Buffer.from(original)));
}

function changed(bytes: Buffer, { kind, at, length, byte, inserted }: Change): Buffer {
  const index = Math.min(Math.floor(at * bytes.length), Math.max(0, bytes.length - 1));
  const before = bytes.subarray(0, index);
  if (kind === "byte" || kind === "bit") {
    const copy = Buffer.from(bytes);
    const old = copy[index] ?? 0;
    if (index < copy.length) copy[index] = kind === "byte" ? byte : old ^ (1 << (byte % 8));
    return copy;
  }
  if (kind === "remove") return Buffer.concat([before, bytes.subarray(index + length)]);
  if (kind === "repeat") {
    return Buffer.concat([bytes.subarray(0, index + length), bytes.subarray(index)]);
  }
  if (kind === "cut") return Buffer.from(before);
  return Buffer.concat([before, inserted, bytes.subarray(index)]);
}
