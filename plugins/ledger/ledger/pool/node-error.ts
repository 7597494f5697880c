import { isObject, parseOrUndefined } from "sluice-gateway/internal/toolkit";

const readBytes = 16 * 1024;
/** jsonrpsee: too many concurrent requests. Substrate: the rate limit of the connection is used up. */
const busyCodes: ReadonlySet<unknown> = new Set([-32009, -32999]);
/** The state was pruned, or this node has not yet imported a block that another node has. */
const missingBlock = /State already discarded|Unknown ?Block/i;
const missingState = /State already discarded/i;

/** Returns true if another node may answer. `bytes[start, end)`: the error object, possibly without a code. */
export function isRetryableElsewhere(bytes: Buffer, start: number, end: number): boolean {
  const error = readSmallJson(bytes, start, end);
  return isBusy(error) || (isObject(error) && missingBlock.test(JSON.stringify(error)));
}

export function discardedState(bytes: Buffer, start: number, end: number): boolean {
  return end - start <= readBytes && missingState.test(bytes.toString("latin1", start, end));
}

/** The result of `archive_v1_call` is `{ success: false, error }` if the node does not have the block, or its state. */
export function isFailureWithoutBlock(bytes: Buffer, start: number, end: number): boolean {
  const result = readSmallJson(bytes, start, end);
  if (!isObject(result) || result.success !== false) return false;
  return missingBlock.test(JSON.stringify(result.error));
}

export function isBusy(error: unknown): boolean {
  return isObject(error) && busyCodes.has(error.code);
}

/** Undefined if the value is long or is not JSON. */
export function readSmallJson(bytes: Buffer, start: number, end: number): unknown {
  if (end - start > readBytes) return undefined;
  return parseOrUndefined(bytes.toString("utf8", start, end));
}
