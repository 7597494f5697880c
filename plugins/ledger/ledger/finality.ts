/** Which answers can never change: what the cache may keep. */
import type { Body } from "./body.ts";
import { elementOf, memberAt } from "./part.ts";
import type { Method } from "./whitelist.ts";

/**
 * Whether the result of this call holds for ever (for a `constant`: as long as the nodes stay what they are).
 *
 * `params` is valid JSON text, empty for none. `finalized` is the number of the highest block known to be finalized
 * **before** the call was sent: later knowledge says nothing about the moment at which the node answered.
 *
 * A block hash counts only at the method's own index: 32 bytes of hexadecimal are a storage key just as often, and
 * `state_getStorage(key)` without a hash is an answer about the moving head.
 */
export function isImmutable(
  method: Method,
  params: string,
  result: Body,
  finalized: number | undefined,
): boolean {
  if (result === "null") return false;
  switch (method.lifetime) {
    case "hash":
      return isBlockHash(elementOf(params, method.hashParam));
    case "block":
      return (
        isBlockHash(elementOf(params, method.hashParam)) && isFinalizedBlock(result, finalized)
      );
    case "height":
      return isFound(result) && isFinalized(readNumber(elementOf(params, 0)), finalized);
    case "constant":
      return params === "" || params === "[]";
    case "moving":
    case "personal":
    case "write":
    default:
      return false;
  }
}

/** A JSON string of 32 bytes in hexadecimal. */
function isBlockHash(element: string | undefined): boolean {
  return element?.length === 68 && /^"0x[0-9a-fA-F]{64}"$/.test(element);
}

/**
 * A hash, or a list of them that is not empty (`archive_v1_hashByHeight` answers `[]` for a height it has not seen).
 */
function isFound(result: Body): boolean {
  return typeof result === "string" && (result.startsWith('"') || result.startsWith('["'));
}

/** Whether the number in a block's header (`{ block: { header: { number: "0x1f" } } }`) is finalized. */
function isFinalizedBlock(result: Body, finalized: number | undefined): boolean {
  return isFinalized(readNumber(memberAt(result, ["block", "header", "number"])), finalized);
}

function isFinalized(number: number | undefined, finalized: number | undefined): boolean {
  return number !== undefined && finalized !== undefined && number <= finalized;
}

/** A block number as nodes take and write it: a JSON integer, or a string of hexadecimal with 0x. */
function readNumber(text: string | undefined): number | undefined {
  if (text === undefined || text.length > 20) return undefined;
  const digits = /^(?:(0|[1-9][0-9]*)|"(0x[0-9a-fA-F]+)")$/.exec(text);
  const number = Number(digits?.[1] ?? digits?.[2]);
  return Number.isSafeInteger(number) ? number : undefined;
}
