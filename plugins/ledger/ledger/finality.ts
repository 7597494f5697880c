/** Decides which answers can never change, so that the cache may store them. */
import type { JsonBody } from "./json-body.ts";
import { elementOf, memberAt } from "./json-part.ts";
import type { Method } from "./whitelist.ts";

/**
 * Returns true if the result of this call can never change (for a `constant`: while the nodes keep their chain,
 * software and runtime).
 *
 * `params`: valid JSON text, or an empty string for none. `finalized`: number of the highest block that was known to be
 * finalized **before** the call was sent. A number that was read later could be higher than the one at the moment when
 * the node answered.
 *
 * A block hash counts only at the method's own index, because 32 bytes of hexadecimal can also be a storage key:
 * `state_getStorage(key)` without a hash reads the moving head.
 */
export function isImmutable(
  method: Method,
  params: string,
  result: JsonBody,
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

export function isBlockHash(element: string | undefined): boolean {
  return element?.length === 68 && /^"0x[0-9a-fA-F]{64}"$/.test(element);
}

/** `archive_v1_hashByHeight` answers `[]` for a height that the node has not seen. */
function isFound(result: JsonBody): boolean {
  return typeof result === "string" && (result.startsWith('"') || result.startsWith('["'));
}

function isFinalizedBlock(result: JsonBody, finalized: number | undefined): boolean {
  return isFinalized(readNumber(memberAt(result, ["block", "header", "number"])), finalized);
}

function isFinalized(number: number | undefined, finalized: number | undefined): boolean {
  return number !== undefined && finalized !== undefined && number <= finalized;
}

/** Reads a block number in the forms that nodes use: a JSON integer, or a string of hexadecimal with 0x. */
export function readNumber(text: string | undefined): number | undefined {
  if (text === undefined || text.length > 20) return undefined;
  const digits = /^(?:(0|[1-9][0-9]*)|"(0x[0-9a-fA-F]+)")$/.exec(text);
  const number = Number(digits?.[1] ?? digits?.[2]);
  return Number.isSafeInteger(number) ? number : undefined;
}
