/**
 * Reads a JSON-RPC 2.0 request body, one call or a batch: ids and params come out as the text the client sent, the
 * method decoded. Params are never made into values, so numbers, key order and escapes cannot change on the way.
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

/** Reads the items of a batch. One that is too long is still read to its end, because it may prove to be malformed. */
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
