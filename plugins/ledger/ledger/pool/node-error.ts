/** What a node's own error says about trying the same read on another node. */

/** Errors that matter here are short; anything longer is the client's affair. */
const readBytes = 16 * 1024;
/** jsonrpsee: too many requests at a time; Substrate: the connection's rate limit is used up. */
const busyCodes: ReadonlySet<unknown> = new Set([-32009, -32999]);
/** A pruned state, or a block that this node has not imported yet and the one that named it had. */
const missingBlock = /State already discarded|Unknown ?Block/i;

/** `bytes[start, end)` is an error object, perhaps without a code. */
export function othersMayKnow(bytes: Buffer, start: number, end: number): boolean {
  const error = readSmallJson(bytes, start, end);
  return isBusy(error) || (isObject(error) && missingBlock.test(JSON.stringify(error)));
}

/** The node refused for want of room, and said nothing about the call. */
export function isBusy(error: unknown): boolean {
  return isObject(error) && busyCodes.has(error.code);
}

/**
 * Parses a short value of a node's; undefined when it is long. Never throws for bytes that `splitResponse` has passed.
 */
export function readSmallJson(bytes: Buffer, start: number, end: number): unknown {
  if (end - start > readBytes) return undefined;
  try {
    return JSON.parse(bytes.toString("utf8", start, end));
  } catch {
    return undefined;
  }
}

export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
