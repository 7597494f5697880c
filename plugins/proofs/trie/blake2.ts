/**
 * BLAKE2b with 32 bytes, the hash of nodes, headers and values. `@noble/hashes` needs five times the time of `hash-wasm`
 * (12 and 2 µs for a node of 380 bytes), which has to be loaded first. Node's own BLAKE2b always returns 64 bytes.
 */
import { blake2b } from "@noble/hashes/blake2.js";
import { createBLAKE2b } from "hash-wasm";
import { hashBytes } from "./node.ts";

let wasm: Awaited<ReturnType<typeof createBLAKE2b>> | undefined;

/** Loads the fast implementation. Until it is loaded, `hashOf` uses the other one. */
export async function loadBlake2(): Promise<void> {
  wasm ??= await createBLAKE2b(hashBytes * 8);
}

export function hashOf(bytes: Uint8Array): Uint8Array {
  return wasm?.init().update(bytes).digest("binary") ?? blake2b(bytes, { dkLen: hashBytes });
}
