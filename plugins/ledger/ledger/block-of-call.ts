/** Finds the block that a call reads, so that the call is sent to a node that has it. */
import { isBlockHash, readNumber } from "./finality.ts";
import { elementOf } from "./json-part.ts";
import type { BlockOfCall } from "./node-pool.ts";
import type { Method } from "./whitelist.ts";

/** Methods that read a block itself. All other methods with a block hash read the state at that block. */
const readsBlock: ReadonlySet<string> = new Set([
  "chain_getBlock",
  "chain_getHeader",
  "archive_v1_header",
  "archive_v1_body",
]);

/** Returns undefined if the call does not name a block. `params`: valid JSON text, or an empty string for none. */
export function blockOfCall(method: Method, params: string): BlockOfCall | undefined {
  if (params === "" || params === "[]") return undefined;
  if (method.lifetime === "height") {
    const number = readNumber(elementOf(params, 0));
    return number === undefined ? undefined : { hash: undefined, number, needsState: false };
  }
  if (method.hashParam < 0) return undefined;
  const element = elementOf(params, method.hashParam);
  if (element === undefined || !isBlockHash(element)) return undefined;
  const hash = element.slice(1, -1).toLowerCase();
  return { hash, number: undefined, needsState: !readsBlock.has(method.name) };
}
