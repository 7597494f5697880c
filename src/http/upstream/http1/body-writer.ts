/**
 * Writes a streamed request body to the socket of its connection, and frames it: by the length that the head announced,
 * or as chunks (RFC 9112 section 6). A body that does not have its length would let its rest be read as the next
 * request, so it breaks the connection.
 */
import type { Socket } from "node:net";
import { writeChunk } from "../../chunk-frame.ts";
import type { RequestBodyWriter, RequestStream } from "./exchange.ts";

/** The connection of a streamed body. */
export interface BodyOwner {
  /** Called after a part of the body was sent. */
  onBodySent(): void;
  /** Called when the body turns out to be shorter or longer than announced. The excess is not sent. */
  onLengthMismatch(): void;
}

export class BodyWriter implements RequestBodyWriter {
  /** True after the end of the body has been written. */
  isComplete = false;
  readonly #socket: Socket;
  readonly #stream: RequestStream;
  readonly #owner: BodyOwner;
  /** Number of bytes that are missing. Undefined for chunks. */
  #left: number | undefined;
  #isClosed = false;

  constructor(socket: Socket, stream: RequestStream, owner: BodyOwner) {
    this.#socket = socket;
    this.#stream = stream;
    this.#owner = owner;
    this.#left = stream.length;
  }

  /** The field that announces the framing. */
  get framing(): string {
    const length = this.#left;
    return length === undefined ? "transfer-encoding: chunked" : `content-length: ${length}`;
  }

  start(): void {
    this.#stream.start(this);
  }

  write(bytes: Buffer): boolean {
    // An empty chunk would end the body.
    if (this.#isClosed || bytes.length === 0) return true;
    if (this.#left === undefined) {
      this.#owner.onBodySent();
      return writeChunk(this.#socket, bytes, bytes.length);
    }
    if (bytes.length > this.#left) {
      this.#owner.onLengthMismatch();
      return true;
    }
    this.#left -= bytes.length;
    this.#owner.onBodySent();
    return this.#socket.write(bytes);
  }

  end(): void {
    if (this.#isClosed) return;
    if (this.#left !== undefined && this.#left > 0) return this.#owner.onLengthMismatch();
    if (this.#left === undefined) this.#socket.write("0\r\n\r\n", "latin1");
    this.#isClosed = true;
    this.isComplete = true;
    this.#owner.onBodySent();
  }

  /** Called when the socket has room again. */
  onDrain(): void {
    if (this.#isClosed) return;
    this.#owner.onBodySent();
    this.#stream.resume();
  }

  /** Ends the sending: nothing more is written, whatever the stream does. */
  close(): void {
    this.#isClosed = true;
  }
}
