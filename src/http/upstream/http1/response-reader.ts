/**
 * A strict incremental reader of HTTP/1.1 responses (RFC 9112), for one connection and one response after another. It
 * takes any segmentation, hands the body on as it comes, and copies nothing but the lines that a piece cuts in two.
 *
 * What could be read in two ways is refused, not interpreted: a bare LF, folded or spaced field names, two lengths, a
 * length beside chunks, any coding but `chunked`.
 */
import {
  BAD,
  COLON,
  hexDigit,
  isFieldValue,
  LineCutter,
  SEMICOLON,
  skipToken,
  UNFINISHED,
} from "./line.ts";
import { ResponseHead } from "./response-head.ts";

export type ResponseState = "more" | "done" | "garbage" | "tooLarge";

/** Told what a response holds, in order. */
export interface ResponseSink {
  /** The final head is complete: see `ResponseReader.head`. */
  headEnds(): void;
  /** A borrowed piece of the body. */
  body(bytes: Buffer, start: number, end: number): void;
}

/** All heads and trailers of a response together, and what is more than needed of the lines around chunks. */
const HEAD_BYTES = 64 * 1024;
/** Eight hexadecimal digits and CRLF. */
const PLAIN_CHUNK_LINE_BYTES = 10;

const STATUS_LINE = 0;
const FIELD = 1;
const FIXED_BODY = 2;
const BODY_UNTIL_CLOSE = 3;
const CHUNK_SIZE = 4;
const CHUNK_DATA = 5;
const CHUNK_END = 6;
const TRAILER = 7;
const DONE = 8;

export class ResponseReader {
  readonly head = new ResponseHead();
  /** True once a byte of the response has come. */
  started = false;
  /** After `done`: where in the piece fed last the response ended. */
  next = 0;
  readonly #sink: ResponseSink;
  readonly #line = new LineCutter();
  readonly #maxBytes: number;
  #state = STATUS_LINE;
  #headBytes = 0;
  /** Bytes of the body, or of the chunk, still to come. */
  #left = 0;
  /** Bytes of the body so far. */
  #size = 0;

  /** `maxBytes`: the largest body taken. */
  constructor(sink: ResponseSink, maxBytes: number) {
    this.#sink = sink;
    this.#maxBytes = maxBytes;
  }

  /** Makes ready for the next response. */
  reset(): void {
    this.head.reset();
    this.#line.reset();
    this.#state = STATUS_LINE;
    this.#headBytes = 0;
    this.#size = 0;
    this.started = false;
  }

  /** Takes `piece[from, to)`. After anything but `more`, `reset` must come before the next `feed`. */
  feed(piece: Buffer, from: number, to: number): ResponseState {
    let at = from;
    if (at < to) this.started = true;
    for (;;) {
      switch (this.#state) {
        case FIXED_BODY:
          at = this.#take(piece, at, to);
          if (this.#left > 0) return "more";
          this.#state = DONE;
          break;
        case BODY_UNTIL_CLOSE:
          if (this.#size + to - at > this.#maxBytes) return "tooLarge";
          this.#pass(piece, at, to);
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
    this.#state = DONE;
    return "done";
  }

  /** Hands on what is left of the body or chunk, as far as it has come; returns the index after it. */
  #take(piece: Buffer, at: number, to: number): number {
    const upTo = Math.min(to, at + this.#left);
    this.#left -= upTo - at;
    this.#pass(piece, at, upTo);
    return upTo;
  }

  #pass(piece: Buffer, start: number, end: number): void {
    if (start === end) return;
    this.#size += end - start;
    this.#sink.body(piece, start, end);
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
        // A trailer: nobody here has a use for one, only its form is checked.
        if (from !== until) return isField(bytes, from, until) ? undefined : "garbage";
        this.#state = DONE;
        return undefined;
    }
  }

  #endOfHead(): "garbage" | "tooLarge" | undefined {
    const framing = this.head.end();
    if (framing === undefined) return "garbage";
    if (framing === "interim") {
      this.head.reset();
      this.#state = STATUS_LINE;
      return undefined;
    }
    if (framing === "none") this.#state = DONE;
    else if (framing === "chunked") this.#state = CHUNK_SIZE;
    else if (framing === "untilClose") this.#state = BODY_UNTIL_CLOSE;
    else {
      this.#left = this.head.length;
      this.#state = FIXED_BODY;
      if (this.#left > this.#maxBytes) return "tooLarge";
    }
    this.#sink.headEnds();
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
