/**
 * A strict incremental parser of the HTTP/1.1 responses (RFC 9112) on one connection. It accepts any segmentation,
 * passes the body on as it arrives, and copies only the lines that are split between two pieces.
 *
 * Ambiguous input is refused: a bare LF, folded lines, spaces after field names, two lengths, a length with chunks, and
 * any transfer coding except `chunked`.
 */
import { BAD, hexDigit, isFieldValue, LineSplitter, SEMICOLON, UNFINISHED } from "./line.ts";
import { ResponseHead } from "./response-head.ts";

export type ResponseState = "more" | "done" | "garbage" | "tooLarge";

export interface ResponseSink {
  onInterim?(): void;
  onHead(): void;
  /** Called for each piece of the body, which is borrowed. */
  onData(bytes: Buffer, start: number, end: number): void;
}

/** Maximum size of all heads and trailers of a response, plus the unnecessary bytes of the lines around chunks. */
const HEAD_BYTES = 64 * 1024;
/** A chunk line needs eight hexadecimal digits and CRLF. */
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
  readonly head: ResponseHead;
  /** True after the first byte of the response has arrived. False again after each interim response. */
  started = false;
  /** After `done`, the index in the last piece at which the response ended. */
  next = 0;
  readonly #sink: ResponseSink;
  readonly #line = new LineSplitter();
  readonly #maxBytes: number;
  #state = STATUS_LINE;
  #headBytes = 0;
  #left = 0;
  #size = 0;

  /** `maxBytes`: maximum size of a body. `keepsFields`: keeps the fields of heads and trailers as text. */
  constructor(sink: ResponseSink, maxBytes: number, keepsFields = false) {
    this.#sink = sink;
    this.#maxBytes = maxBytes;
    this.head = new ResponseHead(keepsFields);
  }

  reset(): void {
    this.head.reset();
    this.#line.reset();
    this.#state = STATUS_LINE;
    this.#headBytes = 0;
    this.#size = 0;
    this.started = false;
  }

  /** Reads `piece[from, to)`. After any result but `more`, call `reset` before the next `feed`. */
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

  /** Called when the peer has closed. Returns `done` if that ends the body, or `cut` if the response is incomplete. */
  close(): "done" | "cut" {
    if (this.#state !== BODY_UNTIL_CLOSE) return "cut";
    this.#state = DONE;
    return "done";
  }

  #take(piece: Buffer, at: number, to: number): number {
    const upTo = Math.min(to, at + this.#left);
    this.#left -= upTo - at;
    this.#pass(piece, at, upTo);
    return upTo;
  }

  #pass(piece: Buffer, start: number, end: number): void {
    if (start === end) return;
    this.#size += end - start;
    this.#sink.onData(piece, start, end);
  }

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
        if (from !== until) return this.head.trailer(bytes, from, until) ? undefined : "garbage";
        this.#state = DONE;
        return undefined;
    }
  }

  #endOfHead(): "garbage" | "tooLarge" | undefined {
    const framing = this.head.end();
    if (framing === undefined) return "garbage";
    if (framing === "interim") {
      this.#sink.onInterim?.();
      this.head.reset();
      this.started = false;
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
    this.#sink.onHead();
    return undefined;
  }

  /** Reads `1*HEXDIG [; extensions]`. Extensions are skipped. */
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
