/** Reads one JSON-RPC request object: which members it has and where their values stand. */
import type { JsonRpcItem } from "../../contract/json.ts";
import { openBrace, openBracket, quote, rangeIs, readMembers, type ReadMember } from "./scan.ts";

export type RpcItem = JsonRpcItem;

export const invalidItem: RpcItem = { kind: "invalid", id: "null" };

/** More unknown members than this make an envelope invalid: their names are kept to find one that stands twice. */
const maxUnknownMembers = 64;

/** Bits of the members seen. */
const jsonrpcBit = 1;
const idBit = 2;
const methodBit = 4;
const paramsBit = 8;

/** Reads envelopes of one body, one after the other; it keeps nothing of the one before. */
export class EnvelopeReader {
  readonly #bytes: Buffer;
  /** The whole body as text where its indices are those of the bytes (ASCII); parts of it are then cheap. */
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

  /** Index after the object that starts at `i`, `depth` arrays around it; `malformed` where it is not JSON. */
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

  /** What the envelope read last is. */
  item(): RpcItem {
    // An id that stands twice is no id to answer with.
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

  /** The text of a range. The body has been found to be UTF-8, so it stands for exactly these bytes. */
  #slice(start: number, end: number): string {
    return this.#text?.substring(start, end) ?? this.#bytes.toString("utf8", start, end);
  }

  /** The value of a JSON string, whose range includes its quotes. */
  #decode(start: number, end: number): string {
    const inner = this.#slice(start + 1, end - 1);
    if (!inner.includes("\\")) return inner;
    // It has been scanned as a JSON string: parsing it cannot fail and gives nothing else.
    return JSON.parse(`"${inner}"`) as string;
  }

  /** The name's range includes its quotes. */
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

  /** Which of the four members it is; 0 for another, whose name is remembered. */
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
    // Reached by these names only where they were written with escapes.
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
    // What is left when it is not text, a number or null: { [ t f
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
