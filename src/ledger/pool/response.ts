/**
 * A strict incremental parser of HTTP/1.1 responses (RFC 9112), for one connection and one response after another.
 *
 * It takes any segmentation, keeps no reference to what it was fed once it has said `more`, and copies nothing when a
 * body of known length lies whole in one piece. What could be read in two ways is refused, not interpreted: a bare LF,
 * folded or spaced field names, two lengths, a length beside chunks, any coding but `chunked`.
 */
import {
  BAD,
  hexDigit,
  isFieldValue,
  LineCutter,
  SEMICOLON,
  skipToken,
  COLON,
  UNFINISHED,
} from "./line.ts";
import { ResponseHead } from "./response-head.ts";

export type ResponseState = "more" | "done" | "garbage" | "tooLarge";

/** All heads and trailers of a response together, and what is more than needed of the lines around chunks. */
const HEAD_BYTES = 64 * 1024;
/** Eight hexadecimal digits and CRLF. */
const PLAIN_CHUNK_LINE_BYTES = 10;
/** A body buffer up to this size is kept for the next response. */
const KEPT_BODY_BYTES = 128 * 1024;
const FIRST_BODY_BYTES = 4 * 1024;

const STATUS_LINE = 0;
const FIELD = 1;
const FIXED_BODY = 2;
const BODY_UNTIL_CLOSE = 3;
const CHUNK_SIZE = 4;
const CHUNK_DATA = 5;
const CHUNK_END = 6;
const TRAILER = 7;
const DONE = 8;

const EMPTY = Buffer.alloc(0);

export class ResponseParser {
  readonly head = new ResponseHead();
  readonly #line = new LineCutter();
  readonly #maxBytes: number;
  #state = STATUS_LINE;
  #headBytes = 0;
  /** Bytes of the body, or of the chunk, still to come. */
  #left = 0;
  /** The body, where it did not come in one piece. */
  #body: Buffer = EMPTY;
  #size = 0;

  /** True once a byte of the response has come. */
  started = false;
  /** After `done`: the body is `bytes[start, end)`, borrowed until the next `feed` or `reset`. */
  bytes: Buffer = EMPTY;
  start = 0;
  end = 0;
  /** After `done`: where in the piece fed last the response ended. */
  next = 0;

  /** `maxBytes`: the largest body taken. */
  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Makes ready for the next response. */
  reset(): void {
    this.head.reset();
    this.#line.reset();
    this.#state = STATUS_LINE;
    this.#headBytes = 0;
    this.#size = 0;
    if (this.#body.length > KEPT_BODY_BYTES) this.#body = EMPTY;
    this.bytes = EMPTY;
    this.started = false;
  }

  /** Takes `piece[from, to)`. After anything but `more`, `reset` must come before the next `feed`. */
  feed(piece: Buffer, from: number, to: number): ResponseState {
    let at = from;
    if (at < to) this.started = true;
    for (;;) {
      switch (this.#state) {
        case FIXED_BODY:
          return this.#fixedBody(piece, at, to);
        case BODY_UNTIL_CLOSE:
          if (this.#size + to - at > this.#maxBytes) return "tooLarge";
          this.#append(piece, at, to);
          return "more";
        case CHUNK_DATA:
          at = this.#take(piece, at, to);
          if (this.#left > 0) return "more";
          this.#state = CHUNK_END;
          break;
        case DONE:
          this.next = at;
          return "done";
        default: {
          const after = this.#line.take(piece, at, to);
          if (after === UNFINISHED) return "more";
          if (after === BAD || !this.#countLine()) return "garbage";
          const fault = this.#readLine();
          if (fault !== undefined) return fault;
          at = after;
        }
      }
    }
  }

  /** The peer has closed. `done` when that is how this body ends, else the response was cut off. */
  close(): "done" | "cut" {
    if (this.#state !== BODY_UNTIL_CLOSE) return "cut";
    this.#wholeBody();
    return "done";
  }

  #fixedBody(piece: Buffer, at: number, to: number): ResponseState {
    if (this.#size === 0 && to - at >= this.#left) {
      this.bytes = piece;
      this.start = at;
      this.end = this.next = at + this.#left;
      this.#state = DONE;
      return "done";
    }
    this.next = this.#take(piece, at, to);
    if (this.#left > 0) return "more";
    this.#wholeBody();
    return "done";
  }

  #wholeBody(): void {
    this.bytes = this.#body;
    this.start = 0;
    this.end = this.#size;
    this.#state = DONE;
  }

  /** Copies what is left of the body or chunk, as far as it has come; returns the index after it. */
  #take(piece: Buffer, at: number, to: number): number {
    const upTo = Math.min(to, at + this.#left);
    this.#append(piece, at, upTo);
    this.#left -= upTo - at;
    return upTo;
  }

  #append(piece: Buffer, from: number, to: number): void {
    const size = this.#size + to - from;
    if (size > this.#body.length) {
      const wanted = Math.max(size, this.head.length, 2 * this.#body.length, FIRST_BODY_BYTES);
      const larger = Buffer.allocUnsafeSlow(wanted);
      this.#body.copy(larger, 0, 0, this.#size);
      this.#body = larger;
    }
    piece.copy(this.#body, this.#size, from, to);
    this.#size = size;
  }

  /** Counts the bytes of a line; false when there are too many. */
  #countLine(): boolean {
    const bytes = this.#line.until - this.#line.from + 2;
    const ofChunk = this.#state === CHUNK_SIZE || this.#state === CHUNK_END;
    this.#headBytes += ofChunk ? Math.max(0, bytes - PLAIN_CHUNK_LINE_BYTES) : bytes;
    return this.#headBytes <= HEAD_BYTES;
  }

  #readLine(): "garbage" | "tooLarge" | undefined {
    const { bytes, from, until } = this.#line;
    switch (this.#state) {
      case STATUS_LINE:
        this.#state = FIELD;
        return this.head.statusLine(bytes, from, until) ? undefined : "garbage";
      case FIELD:
        if (from === until) return this.#endOfHead();
        return this.head.field(bytes, from, until) ? undefined : "garbage";
      case CHUNK_SIZE:
        return this.#chunkSize(bytes, from, until);
      case CHUNK_END:
        this.#state = CHUNK_SIZE;
        return from === until ? undefined : "garbage";
      default:
        // A trailer: nothing in it can matter to JSON-RPC, only its form is checked.
        if (from !== until) return isField(bytes, from, until) ? undefined : "garbage";
        this.#wholeBody();
        return undefined;
    }
  }

  #endOfHead(): "garbage" | "tooLarge" | undefined {
    switch (this.head.end()) {
      case undefined:
        return "garbage";
      case "interim":
        this.head.reset();
        this.#state = STATUS_LINE;
        break;
      case "none":
        this.#wholeBody();
        break;
      case "chunked":
        this.#state = CHUNK_SIZE;
        break;
      case "untilClose":
        this.#state = BODY_UNTIL_CLOSE;
        break;
      case "length":
        this.#left = this.head.length;
        this.#state = FIXED_BODY;
        if (this.#left > this.#maxBytes) return "tooLarge";
    }
    return undefined;
  }

  /** `1*HEXDIG [; extensions]`; extensions are skipped. */
  #chunkSize(line: Buffer, from: number, until: number): "garbage" | "tooLarge" | undefined {
    let at = from;
    let size = 0;
    for (; at < until; at++) {
      const digit = hexDigit(line[at] ?? 0);
      if (digit < 0) break;
      size = size * 16 + digit;
      if (this.#size + size > this.#maxBytes) return "tooLarge";
    }
    const plain = at === until || line[at] === SEMICOLON;
    if (at === from || !plain || !isFieldValue(line, at, until)) return "garbage";
    this.#left = size;
    this.#state = size === 0 ? TRAILER : CHUNK_DATA;
    return undefined;
  }
}

function isField(line: Buffer, from: number, until: number): boolean {
  const colon = skipToken(line, from, until);
  return (
    colon > from && colon < until && line[colon] === COLON && isFieldValue(line, colon + 1, until)
  );
}
