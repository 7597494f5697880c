/** Writes requests to a socket: the head with its framing (RFC 9112 section 6), and the body, whole or as it arrives. */
import type { Socket } from "node:net";
import type { Readable } from "node:stream";
import { writeChunk } from "../../chunk-frame.ts";
import type { StreamedBody } from "./exchange.ts";

/** Maximum size of a text that is sent as a string, which Node copies to its stack and writes without an allocation. */
const maxStringBytes = 8 * 1024;
/** Maximum size of a body that is copied behind its head, so that one buffer is written. */
const maxJoinedBytes = 16 * 1024;

/** `fields`: the head except the field that frames the body. */
export function writeWhole(socket: Socket, fields: string, body: string | Buffer): void {
  const size = Buffer.byteLength(body);
  const head = `${fields}content-length: ${size}\r\n\r\n`;
  if (typeof body === "string" && size < maxStringBytes && size === body.length) {
    // If there are as many bytes as characters, the text is ASCII. latin1 writes the same bytes faster.
    socket.write(head + body, "latin1");
    return;
  }
  const bytes = typeof body === "string" ? Buffer.from(body) : body;
  if (size <= maxJoinedBytes) {
    socket.write(Buffer.concat([Buffer.from(head, "latin1"), bytes]));
    return;
  }
  socket.cork();
  socket.write(head, "latin1");
  socket.write(bytes);
  socket.uncork();
}

export interface UploadOwner {
  /** Called when a part of the body is sent, and when there is room for more. */
  onUploadProgress(): void;
  /** Runs a callback of the stream, and handles its exception. */
  guard(run: () => void): void;
}

/** The excess of a body that is longer than announced would be read as the next request, so it is never sent. */
export class Upload {
  isComplete = false;
  readonly #body: StreamedBody;
  readonly #socket: Socket;
  readonly #owner: UploadOwner;
  #left: number;
  #source: Readable | undefined;

  constructor(body: StreamedBody, socket: Socket, owner: UploadOwner) {
    this.#body = body;
    this.#left = body.length ?? body.maxBytes;
    this.#socket = socket;
    this.#owner = owner;
  }

  start(fields: string): void {
    const { length } = this.#body;
    const source = this.#body.open();
    this.#source = source;
    if (length !== undefined && source.readableLength === length) {
      // A byte stream without an encoding reads Buffers, and the whole body has arrived.
      writeWhole(this.#socket, fields, source.read() as Buffer);
      this.isComplete = true;
      return this.close();
    }
    const framing =
      length === undefined ? "transfer-encoding: chunked" : `content-length: ${length}`;
    this.#socket.write(`${fields}${framing}\r\n\r\n`, "latin1");
    const on = (event: string, run: (chunk: Buffer) => void): void => {
      source.on(event, (chunk: Buffer) => {
        if (this.#source !== undefined) this.#owner.guard(() => run(chunk));
      });
    };
    on("data", (chunk) => this.#send(chunk));
    on("end", () => this.#end());
    on("close", () => this.#fail("incomplete"));
    on("error", () => this.#fail("incomplete"));
    source.resume();
  }

  resume(): void {
    if (this.#source === undefined) return;
    this.#owner.onUploadProgress();
    this.#source.resume();
  }

  /** Stops sending. The rest of the body is read and dropped, so that the sender's connection remains usable. */
  close(): void {
    const source = this.#source;
    this.#source = undefined;
    source?.resume();
  }

  #send(chunk: Buffer): void {
    // An empty chunk would end the body.
    if (chunk.length === 0) return;
    this.#left -= chunk.length;
    if (this.#left < 0) return this.#fail("tooLarge");
    this.#owner.onUploadProgress();
    const isChunked = this.#body.length === undefined;
    const hasRoom = isChunked
      ? writeChunk(this.#socket, chunk, chunk.length)
      : this.#socket.write(chunk);
    if (!hasRoom) this.#source?.pause();
  }

  #end(): void {
    if (this.#body.length === undefined) this.#socket.write("0\r\n\r\n", "latin1");
    else if (this.#left > 0) return this.#fail("incomplete");
    this.isComplete = true;
    this.#owner.onUploadProgress();
    this.close();
  }

  #fail(reason: "tooLarge" | "incomplete"): void {
    this.close();
    this.#body.onError(reason);
  }
}
