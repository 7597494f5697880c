/**
 * Reads whole responses of a node, one after another on a connection. A body of known length that arrives in one piece
 * is not copied; a body in several pieces is assembled. After `feed` has returned `more`, no fed buffer is referenced.
 */
import {
  ResponseReader,
  type ResponseHead,
  type ResponseSink,
  type ResponseState,
} from "sluice-gateway/http";

/** A body buffer of up to this size is reused for the next response. */
const keptBodyBytes = 128 * 1024;
const firstBodyBytes = 4 * 1024;

const empty = Buffer.alloc(0);

export class ResponseParser implements ResponseSink {
  readonly #reader: ResponseReader;
  /** The body, if it did not arrive in one piece. */
  #body: Buffer = empty;
  #size = 0;
  #lent = false;

  /** After `done`, the body is `bytes[start, end)`. It is borrowed until the next `feed` or `reset`. */
  bytes: Buffer = empty;
  start = 0;
  end = 0;

  /** `maxBytes`: maximum size of a body. */
  constructor(maxBytes: number) {
    this.#reader = new ResponseReader(this, maxBytes);
  }

  get head(): ResponseHead {
    return this.#reader.head;
  }

  /** True after the first byte of the response has arrived. */
  get started(): boolean {
    return this.#reader.started;
  }

  /** After `done`, the index in the last piece at which the response ended. */
  get next(): number {
    return this.#reader.next;
  }

  /** Prepares for the next response. */
  reset(): void {
    this.#reader.reset();
    this.#size = 0;
    this.#lent = false;
    if (this.#body.length > keptBodyBytes) this.#body = empty;
    this.bytes = empty;
  }

  /** Reads `piece[from, to)`. After any result but `more`, call `reset` before the next `feed`. */
  feed(piece: Buffer, from: number, to: number): ResponseState {
    const state = this.#reader.feed(piece, from, to);
    if (state === "done") this.#whole();
    return state;
  }

  /** Called when the peer has closed. Returns `done` if that ends the body, or `cut` if the response is incomplete. */
  close(): "done" | "cut" {
    const state = this.#reader.close();
    if (state === "done") this.#whole();
    return state;
  }

  // Callbacks of the reader:

  headEnds(): void {}

  body(piece: Buffer, start: number, end: number): void {
    if (end - start === this.head.length) {
      this.#lent = true;
      this.bytes = piece;
      this.start = start;
      this.end = end;
    } else this.#append(piece, start, end);
  }

  #whole(): void {
    if (this.#lent) return;
    this.bytes = this.#body;
    this.start = 0;
    this.end = this.#size;
  }

  #append(piece: Buffer, from: number, to: number): void {
    const size = this.#size + to - from;
    if (size > this.#body.length) {
      const wanted = Math.max(size, this.head.length, 2 * this.#body.length, firstBodyBytes);
      const larger = Buffer.allocUnsafeSlow(wanted);
      this.#body.copy(larger, 0, 0, this.#size);
      this.#body = larger;
    }
    piece.copy(this.#body, this.#size, from, to);
    this.#size = size;
  }
}
