/**
 * Encodings of the protocol: bytes that are hashed, signed or encrypted (confidential-stream.md, 1.3), and base64url.
 */
import { canonicalJson } from "sluice-gateway/internal/toolkit";
import { fromBase64, toBase64, type Bytes } from "../verify/binary-text.ts";

const encoder = new TextEncoder();

export function utf8(text: string): Bytes {
  return encoder.encode(text);
}

/**
 * Returns the canonical bytes (RFC 8785) of a value that JSON.parse could return, so that the signed bytes can be
 * recreated. Undefined if the value has no canonical form.
 */
export function canonicalBytes(value: unknown): Bytes | undefined {
  const text = canonicalJson(value);
  return text === undefined ? undefined : utf8(text);
}

/** Returns `L(s)`: the ASCII text and a zero byte. */
export function label(text: string): Bytes {
  return utf8(`${text}\0`);
}

/** Returns `lp(x)`: the length as four bytes in big endian, and the bytes. */
export function lengthPrefixed(bytes: Uint8Array): Bytes {
  const prefixed = new Uint8Array(4 + bytes.length);
  writeU32(prefixed, 0, bytes.length);
  prefixed.set(bytes, 4);
  return prefixed;
}

export function writeU32(target: Uint8Array, at: number, value: number): void {
  target[at] = value >>> 24;
  target[at + 1] = (value >>> 16) & 0xff;
  target[at + 2] = (value >>> 8) & 0xff;
  target[at + 3] = value & 0xff;
}

/** Bytes after the end count as 0. */
export function readU32(bytes: Uint8Array, at: number): number {
  const low = ((bytes[at + 1] ?? 0) << 16) | ((bytes[at + 2] ?? 0) << 8) | (bytes[at + 3] ?? 0);
  return (bytes[at] ?? 0) * 0x1000000 + low;
}

export function toBase64Url(bytes: Uint8Array): string {
  return toBase64(bytes).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/**
 * Decodes base64url. Only one spelling is accepted for the same bytes: undefined if the text has padding, other
 * characters or unused bits that are not 0.
 */
export function fromBase64Url(text: string): Bytes | undefined {
  if (!/^[A-Za-z0-9_-]*$/.test(text)) return undefined;
  const standard = text.replaceAll("-", "+").replaceAll("_", "/");
  return fromBase64(standard + "=".repeat((4 - (standard.length % 4)) % 4));
}

/** Decodes the base64url of exactly `length` bytes. Undefined for any other value. */
export function readBytes(value: unknown, length: number): Bytes | undefined {
  if (typeof value !== "string" || value.length !== Math.ceil((length * 4) / 3)) return undefined;
  return fromBase64Url(value);
}

/** Accepts `sha256:` and the lower-case hex of 32 bytes. */
export function isDigestName(value: unknown): value is string {
  return typeof value === "string" && /^sha256:[0-9a-f]{64}$/.test(value);
}
