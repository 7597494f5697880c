/**
 * The node-RPC workload: 40 % system_health, 20 % chain_getBlockHash, 30 % state_getStorage at a hash, 10 % blocks of
 * 20 KB by hash. It is deterministic, so every peer gets the same requests in the same order.
 */
import { createRandom } from "../soak/random.ts";

/** Numbers of distinct arguments: enough to need a cache, and few enough to fit into it. */
const storageKeys = 400;
const blockHashes = 60;
const heights = 500;

/** The head of the chain, as the mock node reports it. All requests are for finalized blocks. */
export const finalizedHeight = 10_000;

export function hashOf(n: number): string {
  return `0x${n.toString(16).padStart(64, "0")}`;
}

export function requestBodies(count: number): string[] {
  // The seed is fixed, so that runs can be compared.
  const random = createRandom(20_261_120);
  const bodies: string[] = [];
  for (let id = 1; id <= count; id++) {
    const share = random.share();
    if (share < 0.4) bodies.push(call(id, "system_health", []));
    else if (share < 0.6) bodies.push(call(id, "chain_getBlockHash", [random.int(heights)]));
    else if (share < 0.9) {
      bodies.push(call(id, "state_getStorage", [storageKey(random.int(storageKeys)), hashOf(7)]));
    } else bodies.push(call(id, "chain_getBlock", [hashOf(random.int(blockHashes) + 1)]));
  }
  return bodies;
}

/** twox128 of pallet and item, then 48 bytes of map key: the shape of System.Account. */
function storageKey(n: number): string {
  return `0x26aa394eea5630e07c48ae0c9558cef7b99d880ec681799c0cf30e8886371da9${n.toString(16).padStart(96, "0")}`;
}

function call(id: number, method: string, params: readonly unknown[]): string {
  return JSON.stringify({ jsonrpc: "2.0", id, method, params });
}
