/**
 * Binary frames as bytes: the 16 bytes of the header, which everybody may read and nobody change, and the plaintext
 * with its padding. Which frame may follow which is watched elsewhere (frame-watch.ts).
 */
import { fault } from "./fault.ts";
import type { Fault } from "./fault.ts";
import { readU32, writeU32 } from "./encoding.ts";
import { maxFrameDataBytes } from "./limits.ts";

/** Client to server, server to client. */
export type Direction = "c2s" | "s2c";
export type FrameType = "request" | "chunk" | "final" | "cancel";

export interface FrameHeader {
  readonly type: FrameType;
  /** Flag END: the last frame of a request, and every final. */
  readonly isEnd: boolean;
  readonly rid: number;
  readonly seq: number;
}

export const headerBytes = 16;
/** Of AES-256-GCM. */
export const tagBytes = 16;
const prefixBytes = 4;
const minFrameBytes = headerBytes + prefixBytes + tagBytes;
/** Of the longest plaintext, padded to 1024. */
const maxPaddedBytes = paddedLength(maxFrameDataBytes, 1024);
export const maxFrameBytes = headerBytes + maxPaddedBytes + tagBytes;

const version = 1;
const endFlag = 1;
const typeNumbers: Readonly<Record<FrameType, number>> = {
  request: 1,
  chunk: 2,
  final: 3,
  cancel: 4,
};
const types: readonly (FrameType | undefined)[] = [
  undefined,
  "request",
  "chunk",
  "final",
  "cancel",
];

/** Which way a frame of that type goes; the other way it is a reflection. */
export function directionOf(type: FrameType): Direction {
  return type === "request" || type === "cancel" ? "c2s" : "s2c";
}

/** The header of a whole frame that came in that direction. */
export function readHeader(frame: Uint8Array, direction: Direction): FrameHeader | Fault {
  if (frame.length < minFrameBytes) return fault("BAD_FRAME", "the frame is too short");
  if (frame.length > maxFrameBytes) return fault("LIMIT_EXCEEDED", "the frame is too long");
  if (frame[0] !== version) return fault("BAD_FRAME", "the frame's version is not known");
  const type = types[frame[1] ?? 0];
  if (type === undefined) return fault("BAD_FRAME", "the frame's type is not known");
  if (directionOf(type) !== direction) {
    return fault("BAD_FRAME", "the frame goes in the wrong direction");
  }
  const flags = frame[2] ?? 0;
  if ((flags & ~endFlag) !== 0) return fault("BAD_FRAME", "a flag of the frame is not known");
  if (frame[3] !== 0) return fault("BAD_FRAME", "the frame's epoch is not 0");
  const isEnd = flags === endFlag;
  if (type === "chunk" && isEnd) return fault("BAD_FRAME", "a chunk ends nothing");
  if (type === "final" && !isEnd) return fault("BAD_FRAME", "a final without END");
  const rid = readU32(frame, 4);
  // No session lasts until 2^32 frames: whatever stands in the upper half is no next number.
  if (readU32(frame, 8) !== 0) return fault("REPLAY", "the sequence number is not the next");
  return { type, isEnd, rid, seq: readU32(frame, 12) };
}

/** Writes the 16 bytes at the start of `target`. `seq` below 2^32. */
export function writeHeader(target: Uint8Array, header: FrameHeader): void {
  target[0] = version;
  target[1] = typeNumbers[header.type];
  target[2] = header.isEnd ? endFlag : 0;
  target[3] = 0;
  writeU32(target, 4, header.rid);
  writeU32(target, 8, 0);
  writeU32(target, 12, header.seq);
}

/** The 12 bytes of nonce: the direction's iv, with the sequence number added to its end by XOR. */
export function writeNonce(target: Uint8Array, iv: Uint8Array, seq: number): void {
  target.set(iv);
  for (let byte = 0; byte < 4; byte++) {
    target[11 - byte] = (iv[11 - byte] ?? 0) ^ ((seq >>> (8 * byte)) & 0xff);
  }
}

/**
 * Bytes of plaintext for so many bytes of data: with the length prefix, to the next multiple of `pad` (0: as it is).
 */
export function paddedLength(dataBytes: number, pad: number): number {
  const bytes = prefixBytes + dataBytes;
  return pad === 0 ? bytes : Math.ceil(bytes / pad) * pad;
}

/** Fills `target`, of `paddedLength` bytes whatever they are, with `lp(data)` and zeros. */
export function writePadded(target: Uint8Array, data: Uint8Array): void {
  writeU32(target, 0, data.length);
  target.set(data, prefixBytes);
  target.fill(0, prefixBytes + data.length);
}

/**
 * The data in a plaintext, a view of it. More padding than was asked for hides more, and is taken; anything but zeros
 * is not.
 */
export function unpadData(plaintext: Uint8Array): Uint8Array | Fault {
  const length = readU32(plaintext, 0);
  const end = prefixBytes + length;
  if (length > maxFrameDataBytes) return fault("LIMIT_EXCEEDED", "the frame holds too much");
  if (end > plaintext.length) return fault("BAD_FRAME", "the frame's plaintext is cut short");
  for (let at = end; at < plaintext.length; at++) {
    if (plaintext[at] !== 0) return fault("BAD_FRAME", "the frame's padding is not zero");
  }
  return plaintext.subarray(prefixBytes, end);
}
