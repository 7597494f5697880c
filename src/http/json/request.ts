/**
 * Reads a JSON-RPC 2.0 request body, one call or a batch: ids and params come out as the text the client sent, the
 * method decoded. Params are never made into values, so numbers, key order and escapes cannot change on the way.
 */
import { isAscii, isUtf8 } from "node:buffer";
import type { JsonRpcBody } from "../../services/json.ts";
import { EnvelopeReader, invalidItem, type RpcItem } from "./envelope.ts";
import {
  closeBracket,
  comma,
  malformed,
  openBrace,
  openBracket,
  skipSpace,
  skipValue,
} from "./scan.ts";

export type RpcBody = JsonRpcBody;

const invalidBody: RpcBody = { kind: "invalid" };
const malformedBody: RpcBody = { kind: "malformed" };

/** A body up to this is made a string once, and its parts share it; a longer one is not kept alive by its parts. */
const sharedTextBytes = 2048;

/**
 * Reads a whole body, strictly. An item is invalid when a member stands in it twice (escaped spellings included: the
 * classic way past a whitelist is a second `method`), `jsonrpc` is not "2.0", `method` is not a string, `params` is a
 * scalar or `id` is neither string, number nor null. `params: null` counts as none, as it does for a Substrate node.
 */
export function readRequest(body: Buffer, maxItems: number): RpcBody {
  const end = body.length;
  const ascii = isAscii(body);
  if (!ascii && !isUtf8(body)) return malformedBody;
  const text = ascii && end <= sharedTextBytes ? body.toString("latin1") : undefined;
  const reader = new EnvelopeReader(body, text);
  const first = skipSpace(body, 0, end);
  if (first < end && body[first] === openBracket) return readBatch(body, reader, first, maxItems);
  const isObject = first < end && body[first] === openBrace;
  const after = isObject ? reader.read(first, 0) : skipValue(body, first, end, 0, "strict");
  if (after === malformed || skipSpace(body, after, end) !== end) return malformedBody;
  return isObject ? { kind: "single", item: reader.item() } : invalidBody;
}

/** `open`: index of the bracket. An array that is too long is still read to its end: it may yet prove malformed. */
function readBatch(body: Buffer, reader: EnvelopeReader, open: number, maxItems: number): RpcBody {
  const end = body.length;
  const items: RpcItem[] = [];
  let count = 0;
  let at = skipSpace(body, open + 1, end);
  if (at < end && body[at] === closeBracket) {
    return skipSpace(body, at + 1, end) === end ? invalidBody : malformedBody;
  }
  for (;;) {
    const isObject = at < end && body[at] === openBrace;
    const wanted = isObject && count < maxItems;
    at = wanted ? reader.read(at, 1) : skipValue(body, at, end, 1, "strict");
    if (at === malformed) return malformedBody;
    if (count++ < maxItems) items.push(isObject ? reader.item() : invalidItem);
    at = skipSpace(body, at, end);
    if (at >= end) return malformedBody;
    if (body[at] === closeBracket) break;
    if (body[at] !== comma) return malformedBody;
    at = skipSpace(body, at + 1, end);
  }
  if (skipSpace(body, at + 1, end) !== end) return malformedBody;
  return count > maxItems ? invalidBody : { kind: "batch", items };
}
