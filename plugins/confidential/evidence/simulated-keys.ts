/**
 * The keys of a simulated platform. The same seed gives the same platform, byte for byte. That requires deterministic
 * signatures (RFC 6979), which node:crypto does not support.
 */
import { hkdfSync } from "node:crypto";
import { mapHashToField } from "@noble/curves/abstract/modular.js";
import { p256 } from "@noble/curves/nist.js";
import { sha256 } from "@noble/hashes/sha2.js";
import type { Bytes } from "../verify/binary-text.ts";

export interface SigningKey {
  /** X and Y, 64 bytes. */
  readonly point: Bytes;
  /** r and s, 64 bytes, over the SHA-256 of the message. */
  sign(message: Uint8Array): Bytes;
}

/** `name`: distinguishes the keys of one platform. */
export function deriveKey(seed: Uint8Array, name: string): SigningKey {
  const material = deriveBytes(seed, `key ${name}`, 48);
  const secret = mapHashToField(material, p256.Point.Fn.ORDER);
  return {
    point: Uint8Array.from(p256.getPublicKey(secret, false).subarray(1)),
    sign: (message) => Uint8Array.from(p256.sign(sha256(message), secret).toBytes("compact")),
  };
}

/** HKDF-SHA-256 without salt. */
export function deriveBytes(seed: Uint8Array, name: string, length: number): Bytes {
  return new Uint8Array(hkdfSync("sha256", seed, "", `sluice simulated tdx ${name}`, length));
}
