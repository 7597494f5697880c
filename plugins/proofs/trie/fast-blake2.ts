/**
 * The BLAKE2b of `hash-wasm`. `@noble/hashes` needs five times the time (12 and 2 µs for a node of 380 bytes), but is
 * installed with the package, as the client needs it.
 */
import { createBLAKE2b } from "hash-wasm";
import { setFastHash } from "./blake2.ts";
import { hashBytes } from "./node.ts";

export async function loadBlake2(): Promise<void> {
  const wasm = await createBLAKE2b(hashBytes * 8);
  setFastHash((bytes) => wasm.init().update(bytes).digest("binary"));
}
