import { isUtf8 } from "node:buffer";
import {
  malformed,
  openBrace,
  openBracket,
  rangeIs,
  readElements,
  readMembers,
  type ReadMember,
  skipSpace,
} from "sluice-gateway/internal/http";

/** One JSON-RPC response. The value of its `result` or `error` is `[start, end)` of the bytes that were split. */
export interface SplitResponse {
  readonly kind: "result" | "error";
  readonly start: number;
  readonly end: number;
  /** The id, if it is a non-negative safe integer like the gateway's own ids; else -1 (absent, null, text). */
  readonly id: number;
}

/**
 * Undefined if the bytes are not a response: not JSON, not UTF-8, neither or both of result and error, or an error that
 * is not an object. `error: null` counts as absent.
 */
export function splitResponse(
  bytes: Buffer,
  start: number = 0,
  end: number = bytes.length,
): SplitResponse | undefined {
  if (!isUtf8(viewOf(bytes, start, end))) return undefined;
  const reader = new ResponseReader();
  const after = reader.read(bytes, skipSpace(bytes, start, end), end, 0);
  if (after === malformed || skipSpace(bytes, after, end) !== end) return undefined;
  return reader.response();
}

/**
 * A single object, which answers a batch that was refused as a whole, is returned as a list of one. Undefined if the
 * bytes are not JSON or not UTF-8, or an element is not a response.
 */
export function splitBatch(
  bytes: Buffer,
  start: number = 0,
  end: number = bytes.length,
): SplitResponse[] | undefined {
  const first = skipSpace(bytes, start, end);
  if (first >= end || bytes[first] !== openBracket) {
    const single = splitResponse(bytes, start, end);
    return single === undefined ? undefined : [single];
  }
  if (!isUtf8(viewOf(bytes, start, end))) return undefined;
  const responses: SplitResponse[] = [];
  const reader = new ResponseReader();
  const after = readElements(
    bytes,
    first,
    end,
    0,
    (_, i) => {
      const next = reader.read(bytes, i, end, 1);
      const response = reader.response();
      if (response === undefined) return malformed;
      responses.push(response);
      return next;
    },
    undefined,
  );
  return after !== malformed && skipSpace(bytes, after, end) === end ? responses : undefined;
}

function viewOf(bytes: Buffer, start: number, end: number): Buffer {
  return start === 0 && end === bytes.length ? bytes : bytes.subarray(start, end);
}

class ResponseReader {
  #kind: "result" | "error" | undefined;
  #start = 0;
  #end = 0;
  #id = -1;
  #isValid = false;

  /** Returns the index after the object, or `malformed` if it is not one. `depth`: number of arrays around it. */
  read(bytes: Buffer, i: number, end: number, depth: number): number {
    this.#kind = undefined;
    this.#id = -1;
    this.#isValid = true;
    return readMembers(bytes, i, end, depth, "trusted", ResponseReader.#member, this);
  }

  response(): SplitResponse | undefined {
    if (!this.#isValid || this.#kind === undefined) return undefined;
    return { kind: this.#kind, start: this.#start, end: this.#end, id: this.#id };
  }

  static readonly #member: ReadMember<ResponseReader> = (
    bytes,
    nameStart,
    nameEnd,
    start,
    end,
    reader,
  ) => {
    if (rangeIs(bytes, nameStart, nameEnd, '"id"')) {
      reader.#id = readInteger(bytes, start, end);
    } else if (rangeIs(bytes, nameStart, nameEnd, '"result"')) {
      reader.#take(bytes, "result", start, end);
    } else if (rangeIs(bytes, nameStart, nameEnd, '"error"')) {
      if (rangeIs(bytes, start, end, "null")) return;
      if (bytes[start] === openBrace) reader.#take(bytes, "error", start, end);
      else reader.#isValid = false;
    }
  };

  #take(bytes: Buffer, kind: "result" | "error", start: number, end: number): void {
    // JSON-RPC 1 servers send `result: null` with an error. Any other result next to an error is a second answer.
    if (kind === "result" && this.#kind === "error") {
      this.#isValid &&= rangeIs(bytes, start, end, "null");
      return;
    }
    const replacesNull = kind === "error" && this.#kind === "result";
    if (replacesNull) this.#isValid &&= rangeIs(bytes, this.#start, this.#end, "null");
    else if (this.#kind !== undefined) this.#isValid = false;
    this.#kind = kind;
    this.#start = start;
    this.#end = end;
  }
}

function readInteger(bytes: Buffer, start: number, end: number): number {
  if (end - start > 15) return -1;
  let value = 0;
  for (let at = start; at < end; at++) {
    const digit = (bytes[at] ?? 0) - 0x30;
    if (digit < 0 || digit > 9) return -1;
    value = value * 10 + digit;
  }
  return value;
}
