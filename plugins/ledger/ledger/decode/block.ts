/** Finds the parts of a `chain_getBlock` result that decoding needs, without parsing the whole result. */
import { findMember, malformed, skipSpace, skipValue } from "sluice-gateway/internal/http";

interface Range {
  readonly start: number;
  readonly end: number;
}

export interface SplitBlock {
  readonly parentHash: string;
  /** The JSON array of extrinsics. */
  readonly extrinsics: Buffer;
}

/** Finds the parts of a block. Returns undefined if `bytes` is not `{ block: { header: { parentHash, … }, extrinsics: […] }, … }`. */
export function splitBlock(bytes: Buffer): SplitBlock | undefined {
  const whole = { start: 0, end: bytes.length };
  const block = member(bytes, whole, "block");
  const header = block === undefined ? undefined : member(bytes, block, "header");
  const parent = header === undefined ? undefined : member(bytes, header, "parentHash");
  const extrinsics = block === undefined ? undefined : member(bytes, block, "extrinsics");
  if (parent === undefined || extrinsics === undefined) return undefined;
  const parentHash = bytes.toString("latin1", parent.start + 1, parent.end - 1);
  if (!/^0x[\da-f]{64}$/i.test(parentHash)) return undefined;
  return { parentHash, extrinsics: bytes.subarray(extrinsics.start, extrinsics.end) };
}

/** Returns the range of the value of the first member with this name, of the object in the given range. */
function member(bytes: Buffer, { start, end }: Range, name: string): Range | undefined {
  const value = findMember(bytes, skipSpace(bytes, start, end), end, name);
  const valueEnd = value === malformed ? malformed : skipValue(bytes, value, end, 0, "trusted");
  return valueEnd === malformed ? undefined : { start: value, end: valueEnd };
}
