/**
 * The layout of binary frames: the header of 16 bytes, readable by everyone but protected against changes, and the
 * plaintext with its padding.
 */
import { fault, type Fault } from "./fault.ts";
import { readU32, writeU32 } from "./encoding.ts";
import { maxFrameDataBytes } from "./limits.ts";

/** Client to server, or server to client. */
export type Direction = "c2s" | "s2c";

/** The index of a type is its number on the wire. */
const types = [undefined, "request", "chunk", "final", "cancel"] as const;
type FrameType = NonNullable<(typeof types)[number]>;

export interface FrameHeader {
  readonly type: FrameType;
  /** The flag END, which the last frame of a request and every final have. */
  readonly isEnd: boolean;
  readonly rid: number;
  readonly seq: number;
}

export const headerBytes = 16;
export const tagBytes = 16;
const prefixBytes = 4;
const minFrameBytes = headerBytes + prefixBytes + tagBytes;
const maxPaddedBytes = paddedLength(maxFrameDataBytes, 1024);
export const maxFrameBytes = headerBytes + maxPaddedBytes + tagBytes;

const version = 1;
const endFlag = 1;

/** Returns the direction of frames of that type. A frame in the other direction is a reflection attack. */
function directionOf(type: FrameType): Direction {
  return type === "request" || type === "cancel" ? "c2s" : "s2c";
}

/** `frame`: the whole frame. `direction`: the direction in which it was received. */
export function readHeader(frame: Uint8Array, direction: Direction): FrameHeader | Fault {
  if (frame.length < minFrameBytes) return fault("BAD_FRAME", "the frame is too short");
  if (frame.length > maxFrameBytes) return fault("LIMIT_EXCEEDED", "the frame is too long");
  if (frame[0] !== version) return fault("BAD_FRAME", "unknown frame version");
  const type = types[frame[1] ?? 0];
  if (type === undefined) return fault("BAD_FRAME", "unknown frame type");
  if (directionOf(type) !== direction) {
    return fault("BAD_FRAME", "a frame of this type is not valid in this direction");
  }
  const flags = frame[2] ?? 0;
  if ((flags & ~endFlag) !== 0) return fault("BAD_FRAME", "unknown frame flag");
  if (frame[3] !== 0) return fault("BAD_FRAME", "the frame's epoch is not 0");
  const isEnd = flags === endFlag;
  if (type === "chunk" && isEnd) return fault("BAD_FRAME", "a chunk must not have END");
  if (type === "final" && !isEnd) return fault("BAD_FRAME", "a final must have END");
  const rid = readU32(frame, 4);
  // A session has fewer than 2^32 frames, so the upper half of a valid sequence number is 0.
  if (readU32(frame, 8) !== 0) return fault("REPLAY", "the sequence number is not the next number");
  return { type, isEnd, rid, seq: readU32(frame, 12) };
}

/** Writes the 16 bytes of the header at the start of `target`. `seq` must be below 2^32. */
export function writeHeader(target: Uint8Array, header: FrameHeader): void {
  target[0] = version;
  target[1] = types.indexOf(header.type);
  target[2] = header.isEnd ? endFlag : 0;
  target[3] = 0;
  writeU32(target, 4, header.rid);
  writeU32(target, 8, 0);
  writeU32(target, 12, header.seq);
}

/** Writes the nonce of 12 bytes: the direction's iv, whose end is XORed with the sequence number. */
export function writeNonce(target: Uint8Array, iv: Uint8Array, seq: number): void {
  target.set(iv);
  for (let byte = 0; byte < 4; byte++) {
    target[11 - byte] = (iv[11 - byte] ?? 0) ^ ((seq >>> (8 * byte)) & 0xff);
  }
}

/** Size of the plaintext with its length prefix, rounded up to a multiple of `pad` (not rounded if `pad` is 0). */
export function paddedLength(dataBytes: number, pad: number): number {
  const bytes = prefixBytes + dataBytes;
  return pad === 0 ? bytes : Math.ceil(bytes / pad) * pad;
}

/** Fills `target` with `lp(data)` and zeros. `target`: `paddedLength` bytes; their previous values do not matter. */
export function writePadded(target: Uint8Array, data: Uint8Array): void {
  writeU32(target, 0, data.length);
  target.set(data, prefixBytes);
  target.fill(0, prefixBytes + data.length);
}

/**
 * Returns a view. More padding than was requested is accepted, since it hides more. Padding that contains anything but
 * zeros is refused.
 */
export function unpadData(plaintext: Uint8Array): Uint8Array | Fault {
  const length = readU32(plaintext, 0);
  const end = prefixBytes + length;
  if (length > maxFrameDataBytes)
    return fault("LIMIT_EXCEEDED", "the frame contains too much data");
  if (end > plaintext.length) return fault("BAD_FRAME", "the frame's plaintext is truncated");
  for (let at = end; at < plaintext.length; at++) {
    if (plaintext[at] !== 0) return fault("BAD_FRAME", "the frame's padding is not zero");
  }
  return plaintext.subarray(prefixBytes, end);
}
