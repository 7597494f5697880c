import type { JsonRpcItem } from "../../contract/json.ts";
import { openBrace, openBracket, quote, rangeIs, readMembers, type ReadMember } from "./scan.ts";

export type RpcItem = JsonRpcItem;

export const invalidItem: RpcItem = { kind: "invalid", id: "null" };

/** Maximum number of unknown members. Their names are kept to find duplicates, so an envelope with more is invalid. */
const maxUnknownMembers = 64;

/** One bit per known member, to record which ones an envelope has. */
const jsonrpcBit = 1;
const idBit = 2;
const methodBit = 4;
const paramsBit = 8;

export class EnvelopeReader {
  readonly #bytes: Buffer;
  /** The whole body as text, if its indices equal those of the bytes (ASCII). Its substrings are then cheap. */
  readonly #text: string | undefined;
  #seen = 0;
  #twice = 0;
  #valid = true;
  #unknown: Set<string> | undefined;
  #id: string | undefined;
  #method = "";
  #params = "";

  constructor(bytes: Buffer, text: string | undefined) {
    this.#bytes = bytes;
    this.#text = text;
  }

  /** Returns the index after the object, or `malformed`. `depth`: number of arrays around it. */
  read(i: number, depth: number): number {
    this.#seen = 0;
    this.#twice = 0;
    this.#valid = true;
    this.#unknown = undefined;
    this.#id = undefined;
    this.#params = "";
    return readMembers(
      this.#bytes,
      i,
      this.#bytes.length,
      depth,
      "strict",
      EnvelopeReader.#read,
      this,
    );
  }

  static readonly #read: ReadMember<EnvelopeReader> = (_, name, nameEnd, value, valueEnd, reader) =>
    reader.#member(name, nameEnd, value, valueEnd);

  item(): RpcItem {
    // If the id occurs twice, neither of them can be used in the answer.
    const id = (this.#twice & idBit) === 0 ? this.#id : undefined;
    const required = jsonrpcBit | methodBit;
    if (!this.#valid || this.#twice !== 0 || (this.#seen & required) !== required) {
      return id === undefined ? invalidItem : { kind: "invalid", id };
    }
    const method = this.#method;
    const params = this.#params;
    if (id === undefined) return { kind: "notification", method, params };
    return { kind: "call", id, method, params };
  }

  /** Returns the text of a range. The body is valid UTF-8, so the text represents exactly these bytes. */
  #slice(start: number, end: number): string {
    return this.#text?.substring(start, end) ?? this.#bytes.toString("utf8", start, end);
  }

  /** Returns the value of a JSON string. The range includes its quotes. */
  #decode(start: number, end: number): string {
    const inner = this.#slice(start + 1, end - 1);
    if (!inner.includes("\\")) return inner;
    // The text has been scanned as a JSON string, so parsing it cannot fail and returns a string.
    return JSON.parse(`"${inner}"`) as string;
  }

  /** The range of the name includes its quotes. */
  #member(name: number, nameEnd: number, value: number, valueEnd: number): void {
    const bit = this.#bitOf(name, nameEnd);
    if (bit === 0) return;
    this.#twice |= this.#seen & bit;
    this.#seen |= bit;
    if (bit === idBit) this.#takeId(value, valueEnd);
    else if (bit === methodBit) this.#takeMethod(value, valueEnd);
    else if (bit === paramsBit) this.#takeParams(value, valueEnd);
    else this.#valid &&= this.#isVersion2(value, valueEnd);
  }

  /** Returns the bit of a known member. For any other member, stores its name and returns 0. */
  #bitOf(name: number, nameEnd: number): number {
    const bytes = this.#bytes;
    const start = name + 1;
    const end = nameEnd - 1;
    if (rangeIs(bytes, start, end, "id")) return idBit;
    if (rangeIs(bytes, start, end, "method")) return methodBit;
    if (rangeIs(bytes, start, end, "params")) return paramsBit;
    if (rangeIs(bytes, start, end, "jsonrpc")) return jsonrpcBit;
    return this.#rareBit(this.#decode(name, nameEnd));
  }

  #rareBit(name: string): number {
    // A known name gets here only if it was written with escapes.
    if (name === "id") return idBit;
    if (name === "method") return methodBit;
    if (name === "params") return paramsBit;
    if (name === "jsonrpc") return jsonrpcBit;
    this.#unknown ??= new Set();
    if (this.#unknown.has(name) || this.#unknown.size === maxUnknownMembers) this.#valid = false;
    this.#unknown.add(name);
    return 0;
  }

  #takeId(start: number, end: number): void {
    const first = this.#bytes[start];
    // An id that is not a text, a number or null starts with one of: { [ t f
    if (first === openBrace || first === openBracket || first === 0x74 || first === 0x66) {
      this.#valid = false;
    } else {
      this.#id = this.#slice(start, end);
    }
  }

  #takeMethod(start: number, end: number): void {
    if (this.#bytes[start] === quote) this.#method = this.#decode(start, end);
    else this.#valid = false;
  }

  #takeParams(start: number, end: number): void {
    const first = this.#bytes[start];
    if (first === openBracket || first === openBrace) this.#params = this.#slice(start, end);
    else if (!rangeIs(this.#bytes, start, end, "null")) this.#valid = false;
  }

  #isVersion2(start: number, end: number): boolean {
    if (rangeIs(this.#bytes, start, end, '"2.0"')) return true;
    return this.#bytes[start] === quote && this.#decode(start, end) === "2.0";
  }
}
