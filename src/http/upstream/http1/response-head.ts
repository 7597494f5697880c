/** The head of an HTTP/1.1 response: its status and the framing of its body (RFC 9112 sections 4 to 6). */
import { rangeIs } from "../../json/scan.ts";
import { colonOf, decimal, isFieldValue, isWord, skipBlanks, SPACE, trimmedEnd } from "./line.ts";

const NO_LENGTH = -1;

/** How the body ends. `interim`: a 1xx response, after which another head follows. */
export type Framing = "interim" | "none" | "length" | "chunked" | "untilClose";

export class ResponseHead {
  status = 0;
  /** False if the connection must not be used again. */
  persistent = true;
  /** Content-Encoding in lower case. Undefined if there is none. */
  coding: string | undefined;
  /** Retry-After of a refusal, as text. Undefined if there is none. */
  retryAfter: string | undefined;
  /** Content-Length, or -1. */
  length = NO_LENGTH;
  /** The options in all `Connection` fields except `keep-alive`. Undefined if there are none. */
  connection: string | undefined;
  /** Names and values alternately, as they arrived. Empty unless fields are kept. */
  fields: string[] = [];
  trailers: string[] = [];
  /** True if the request was HEAD, so that the response has no body. `reset` does not change it. */
  answersHead = false;
  readonly #keepsFields: boolean;
  #http10 = false;
  #chunked = false;

  constructor(keepsFields: boolean) {
    this.#keepsFields = keepsFields;
  }

  reset(): void {
    this.status = 0;
    this.persistent = true;
    this.length = NO_LENGTH;
    this.coding = undefined;
    this.retryAfter = undefined;
    this.connection = undefined;
    if (this.#keepsFields) {
      this.fields = [];
      this.trailers = [];
    }
    this.#http10 = false;
    this.#chunked = false;
  }

  /** Reads `HTTP/1.x SP 3DIGIT [SP reason]`. Returns false if the line is malformed. */
  statusLine(line: Buffer, from: number, until: number): boolean {
    const after = from + 12;
    if (until < after || !rangeIs(line, from, from + 7, "HTTP/1.")) return false;
    const minor = decimal(line, from + 7, from + 8);
    const status = decimal(line, from + 9, after);
    if ((minor !== 0 && minor !== 1) || line[from + 8] !== SPACE) return false;
    if (status < 100 || status > 599) return false;
    if (until > after && line[after] !== SPACE) return false;
    this.status = status;
    this.#http10 = minor === 0;
    this.persistent = minor === 1;
    return isFieldValue(line, after, until);
  }

  /** Returns false if the field is malformed or contradicts another field. */
  field(line: Buffer, from: number, until: number): boolean {
    const colon = colonOf(line, from, until);
    if (colon < 0) return false;
    if (this.#keepsFields) keep(this.fields, line, from, colon, until);
    switch (colon - from) {
      case 10:
        if (isWord(line, from, colon, "connection")) this.#connection(line, colon + 1, until);
        return true;
      case 11:
        if (this.status >= 400 && isWord(line, from, colon, "retry-after"))
          this.retryAfter = line.toString("latin1", colon + 1, until).trim();
        return true;
      case 14:
        return !isWord(line, from, colon, "content-length") || this.#setLength(line, colon, until);
      case 16:
        if (isWord(line, from, colon, "content-encoding")) this.#encode(line, colon + 1, until);
        return true;
      case 17:
        return !isWord(line, from, colon, "transfer-encoding") || this.#code(line, colon, until);
      default:
        return true;
    }
  }

  trailer(line: Buffer, from: number, until: number): boolean {
    const colon = colonOf(line, from, until);
    if (colon >= 0 && this.#keepsFields) keep(this.trailers, line, from, colon, until);
    return colon >= 0;
  }

  /** Undefined if the length of the body is ambiguous, or the response was not requested. */
  end(): Framing | undefined {
    const hasLength = this.length !== NO_LENGTH;
    if (this.#chunked && hasLength) return undefined;
    if (this.status < 200) {
      return this.status === 101 || this.#chunked || hasLength ? undefined : "interim";
    }
    if (this.answersHead || this.status === 204 || this.status === 304) return "none";
    if (this.#chunked) return "chunked";
    if (hasLength) return "length";
    this.persistent = false;
    return "untilClose";
  }

  /** Appends a value. Several fields form one list (RFC 9110 section 5.2). */
  #encode(line: Buffer, colonEnd: number, until: number): void {
    const value = line.toString("latin1", colonEnd, until).trim().toLowerCase();
    this.coding = this.coding === undefined ? value : `${this.coding}, ${value}`;
  }

  #setLength(line: Buffer, colon: number, until: number): boolean {
    if (this.length !== NO_LENGTH) return false;
    const from = skipBlanks(line, colon + 1, until);
    this.length = decimal(line, from, trimmedEnd(line, from, until));
    return this.length >= 0;
  }

  #code(line: Buffer, colon: number, until: number): boolean {
    if (this.#chunked || this.#http10) return false;
    this.#chunked = true;
    const from = skipBlanks(line, colon + 1, until);
    return isWord(line, from, trimmedEnd(line, from, until), "chunked");
  }

  #connection(line: Buffer, colonEnd: number, until: number): void {
    const from = skipBlanks(line, colonEnd, until);
    if (isWord(line, from, until, "keep-alive")) return;
    // Rare: `close`, or a list that contains it. HTTP/1.0 connections are never reused.
    const options = line.toString("latin1", from, until).toLowerCase();
    this.connection = this.connection === undefined ? options : `${this.connection},${options}`;
    if (options.split(",").some((option) => option.trim() === "close")) this.persistent = false;
  }
}

/** Adds a name and a value as text. Latin-1 preserves each byte. */
function keep(list: string[], line: Buffer, from: number, colon: number, until: number): void {
  const start = skipBlanks(line, colon + 1, until);
  const end = trimmedEnd(line, start, until);
  list.push(line.toString("latin1", from, colon), line.toString("latin1", start, end));
}
