/** How bytes are put together before they are hashed, signed or sealed (confidential-stream.md, 1.3). */
import { fromBase64, toBase64 } from "../verify/binary-text.ts";
import type { Bytes } from "../verify/binary-text.ts";

const encoder = new TextEncoder();

/** UTF-8. */
export function utf8(text: string): Bytes {
  return encoder.encode(text);
}

/** `L(s)`: the ASCII text and a zero byte. */
export function label(text: string): Bytes {
  return utf8(`${text}\0`);
}

/** `lp(x)`: the length as four bytes, big endian, and the bytes. */
export function lengthPrefixed(bytes: Uint8Array): Bytes {
  const prefixed = new Uint8Array(4 + bytes.length);
  writeU32(prefixed, 0, bytes.length);
  prefixed.set(bytes, 4);
  return prefixed;
}

/** Big endian. */
export function writeU32(target: Uint8Array, at: number, value: number): void {
  target[at] = value >>> 24;
  target[at + 1] = (value >>> 16) & 0xff;
  target[at + 2] = (value >>> 8) & 0xff;
  target[at + 3] = value & 0xff;
}

/** Big endian; bytes past the end count as 0. */
export function readU32(bytes: Uint8Array, at: number): number {
  const low = ((bytes[at + 1] ?? 0) << 16) | ((bytes[at + 2] ?? 0) << 8) | (bytes[at + 3] ?? 0);
  return (bytes[at] ?? 0) * 0x1000000 + low;
}

/** base64url without padding. */
export function toBase64Url(bytes: Uint8Array): string {
  return toBase64(bytes).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** One spelling for the same bytes: undefined for padding, other characters, stray bits. */
export function fromBase64Url(text: string): Bytes | undefined {
  if (!/^[A-Za-z0-9_-]*$/.test(text)) return undefined;
  const standard = text.replaceAll("-", "+").replaceAll("_", "/");
  return fromBase64(standard + "=".repeat((4 - (standard.length % 4)) % 4));
}

/** The base64url of exactly `length` bytes; undefined for anything else. */
export function readBytes(value: unknown, length: number): Bytes | undefined {
  if (typeof value !== "string" || value.length !== Math.ceil((length * 4) / 3)) return undefined;
  return fromBase64Url(value);
}

/** `sha256:` and the lower-case hex of 32 bytes: how the protocol names digests. */
export function isDigestName(value: unknown): value is string {
  return typeof value === "string" && /^sha256:[0-9a-f]{64}$/.test(value);
}
