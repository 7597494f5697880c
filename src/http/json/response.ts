/** Splits what a node answered: where its `result` or `error` stands, without making values of it. */
import { isUtf8 } from "node:buffer";
import {
  closeBrace,
  closeBracket,
  comma,
  malformed,
  openBrace,
  openBracket,
  quote,
  rangeIs,
  skipColon,
  skipSpace,
  skipString,
  skipValue,
} from "./scan.ts";

/** One JSON-RPC response: the value of its `result` or `error` is `[start, end)` of the bytes that were split. */
export interface SplitResponse {
  readonly kind: "result" | "error";
  readonly start: number;
  readonly end: number;
  /** The id where it is a non-negative safe integer, as the gateway's own ids are; else -1 (absent, null, text). */
  readonly id: number;
}

/**
 * Splits one response object that fills the bytes, white space around it allowed. Undefined: not one (not JSON, not
 * UTF-8, neither or both of result and error, an error that is not an object). `error: null` counts as absent.
 */
export function splitResponse(
  bytes: Buffer,
  start: number = 0,
  end: number = bytes.length,
): SplitResponse | undefined {
  if (!isUtf8(viewOf(bytes, start, end))) return undefined;
  const cursor = new Cursor(bytes, skipSpace(bytes, start, end), end);
  const response = cursor.response(0);
  return skipSpace(bytes, cursor.at, end) === end ? response : undefined;
}

/**
 * Splits an array of responses, in the order they came. A single object is the answer to a batch that was refused as a
 * whole: it comes back as a list of one. Undefined: not JSON, not UTF-8, or an element that is no response.
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
  const cursor = new Cursor(bytes, skipSpace(bytes, first + 1, end), end);
  if (cursor.at < end && bytes[cursor.at] === closeBracket) {
    return skipSpace(bytes, cursor.at + 1, end) === end ? responses : undefined;
  }
  for (;;) {
    const response = cursor.response(1);
    if (response === undefined) return undefined;
    responses.push(response);
    const at = skipSpace(bytes, cursor.at, end);
    if (at >= end) return undefined;
    if (bytes[at] === closeBracket) {
      return skipSpace(bytes, at + 1, end) === end ? responses : undefined;
    }
    if (bytes[at] !== comma) return undefined;
    cursor.at = skipSpace(bytes, at + 1, end);
  }
}

function viewOf(bytes: Buffer, start: number, end: number): Buffer {
  return start === 0 && end === bytes.length ? bytes : bytes.subarray(start, end);
}

/** Reads response objects one after the other. */
class Cursor {
  readonly #bytes: Buffer;
  readonly #end: number;
  at: number;
  #kind: "result" | "error" | undefined;
  #start = 0;
  #stop = 0;
  #id = -1;

  constructor(bytes: Buffer, at: number, end: number) {
    this.#bytes = bytes;
    this.at = at;
    this.#end = end;
  }

  /** Reads one object and stands after it; undefined when it is no response, and then stands anywhere. */
  response(depth: number): SplitResponse | undefined {
    const bytes = this.#bytes;
    const end = this.#end;
    this.#kind = undefined;
    this.#id = -1;
    if (this.at >= end || bytes[this.at] !== openBrace) return undefined;
    let at = skipSpace(bytes, this.at + 1, end);
    for (;;) {
      if (at >= end || bytes[at] !== quote) return undefined;
      const nameEnd = skipString(bytes, at, end, "trusted");
      if (nameEnd === malformed) return undefined;
      const value = skipColon(bytes, nameEnd, end);
      if (value === malformed) return undefined;
      const valueEnd = skipValue(bytes, value, end, depth + 1, "trusted");
      if (valueEnd === malformed) return undefined;
      if (!this.#member(at + 1, nameEnd - 1, value, valueEnd)) return undefined;
      at = skipSpace(bytes, valueEnd, end);
      if (at >= end) return undefined;
      if (bytes[at] === closeBrace) break;
      if (bytes[at] !== comma) return undefined;
      at = skipSpace(bytes, at + 1, end);
    }
    this.at = at + 1;
    if (this.#kind === undefined) return undefined;
    return { kind: this.#kind, start: this.#start, end: this.#stop, id: this.#id };
  }

  /** Notes a member; false when the response cannot be one. */
  #member(name: number, nameEnd: number, value: number, valueEnd: number): boolean {
    const bytes = this.#bytes;
    if (rangeIs(bytes, name, nameEnd, "id")) {
      this.#id = readInteger(bytes, value, valueEnd);
    } else if (rangeIs(bytes, name, nameEnd, "result")) {
      return this.#take("result", value, valueEnd);
    } else if (rangeIs(bytes, name, nameEnd, "error")) {
      if (rangeIs(bytes, value, valueEnd, "null")) return true;
      return bytes[value] === openBrace && this.#take("error", value, valueEnd);
    }
    return true;
  }

  #take(kind: "result" | "error", start: number, stop: number): boolean {
    // `result: null` beside an error is what JSON-RPC 1 servers send; anything else beside it is two answers.
    if (kind === "result" && this.#kind === "error") {
      return rangeIs(this.#bytes, start, stop, "null");
    }
    if (kind === "error" && this.#kind === "result") {
      if (!rangeIs(this.#bytes, this.#start, this.#stop, "null")) return false;
    } else if (this.#kind !== undefined) {
      return false;
    }
    this.#kind = kind;
    this.#start = start;
    this.#stop = stop;
    return true;
  }
}

/** A non-negative safe integer written without sign, fraction or exponent; else -1. */
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
