/**
 * Reads a JSON-RPC 2.0 request body, one call or a batch. Ids and params are returned as the text that the client sent,
 * and the method is decoded. Params are never parsed to values, so numbers, key order and escapes cannot change.
 */
import { isAscii, isUtf8 } from "node:buffer";
import type { JsonRpcBody } from "../../contract/json.ts";
import { EnvelopeReader, invalidItem, type RpcItem } from "./envelope.ts";
import {
  malformed,
  openBrace,
  openBracket,
  readElements,
  type ReadElement,
  skipSpace,
  skipValue,
} from "./scan.ts";

export type RpcBody = JsonRpcBody;

const invalidBody: RpcBody = { kind: "invalid" };
const malformedBody: RpcBody = { kind: "malformed" };

/**
 * A body of up to this size is converted to one string, which its parts share. The parts of a longer body are converted
 * separately, so that they do not keep the whole body in memory.
 */
const sharedTextBytes = 2048;

/**
 * Reads a whole body strictly. An item is invalid if a member occurs twice (a second `method`, possibly spelled with
 * escapes, is the classic way to bypass a whitelist), if `jsonrpc` is not "2.0", `method` is not a string, `params` is
 * a scalar, or `id` is neither a string, a number nor null. `params: null` counts as missing.
 */
export function readRequest(body: Buffer, maxItems: number): RpcBody {
  const end = body.length;
  const ascii = isAscii(body);
  if (!ascii && !isUtf8(body)) return malformedBody;
  const text = ascii && end <= sharedTextBytes ? body.toString("latin1") : undefined;
  const reader = new EnvelopeReader(body, text);
  const first = skipSpace(body, 0, end);
  const opening = body[first];
  const batch = opening === openBracket ? new BatchReader(reader, maxItems) : undefined;
  let after;
  if (batch !== undefined) after = readElements(body, first, end, 0, BatchReader.read, batch);
  else if (opening === openBrace) after = reader.read(first, 0);
  else after = skipValue(body, first, end, 0, "strict");
  if (after === malformed || skipSpace(body, after, end) !== end) return malformedBody;
  if (batch !== undefined) return batch.body();
  return opening === openBrace ? { kind: "single", item: reader.item() } : invalidBody;
}

/** A batch that is too long is still read to its end, because it may be malformed. */
class BatchReader {
  readonly #reader: EnvelopeReader;
  readonly #maxItems: number;
  readonly #items: RpcItem[] = [];
  #count = 0;

  constructor(reader: EnvelopeReader, maxItems: number) {
    this.#reader = reader;
    this.#maxItems = maxItems;
  }

  static readonly read: ReadElement<BatchReader> = (bytes, i, end, batch) => {
    const isWanted = batch.#count++ < batch.#maxItems;
    const isObject = bytes[i] === openBrace;
    const after =
      isWanted && isObject ? batch.#reader.read(i, 1) : skipValue(bytes, i, end, 1, "strict");
    if (isWanted) batch.#items.push(isObject ? batch.#reader.item() : invalidItem);
    return after;
  };

  body(): RpcBody {
    const isValid = this.#count > 0 && this.#count <= this.#maxItems;
    return isValid ? { kind: "batch", items: this.#items } : invalidBody;
  }
}
