/** BLAKE2b with 32 bytes. Node's own BLAKE2b always returns 64 bytes. */
import { blake2b } from "@noble/hashes/blake2.js";
import { hashBytes } from "./node.ts";

let fast: ((bytes: Uint8Array) => Uint8Array) | undefined;

export function setFastHash(hash: (bytes: Uint8Array) => Uint8Array): void {
  fast = hash;
}

export function hashOf(bytes: Uint8Array): Uint8Array {
  return fast?.(bytes) ?? blake2b(bytes, { dkLen: hashBytes });
}
