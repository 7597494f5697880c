import type { RequestBody } from "./request-head.ts";

export type BodyResult =
  | { readonly kind: "body"; readonly body: Buffer }
  | { readonly kind: "tooLarge" };

const none: BodyResult = { kind: "body", body: Buffer.alloc(0) };
export const tooLarge: BodyResult = { kind: "tooLarge" };

/** Property with the reader of a request. Listeners find it through `this`, so no closure per request is needed. */
const reader = Symbol("body reader");
type ReadRequest = RequestBody & { [reader]?: BodyReader<unknown> | undefined };

/** Receives the events of a body that is read as a whole. All requests share one listener. */
export interface BodyListener<Owner> {
  onData(owner: Owner, bytes: number): void;
  /** Called once, but not if the body is abandoned or the client leaves (the response's `close` reports that). */
  onEnd(owner: Owner, result: BodyResult): void;
}

/**
 * The limit applies to `Content-Length` before reading, and to the received bytes. Bytes after `tooLarge` are dropped.
 */
export function readBody<Owner>(
  request: ReadRequest,
  capBytes: number,
  owner: Owner,
  listener: BodyListener<Owner>,
): void {
  const announced = request.headers["content-length"];
  if (announced !== undefined && Number(announced) > capBytes) {
    return listener.onEnd(owner, tooLarge);
  }
  if (announced === "0") return listener.onEnd(owner, none);
  request[reader] = new BodyReader(capBytes, owner, listener);
  request.on("data", onData);
  request.on("end", onEnd);
}

/** Releases the received part of a body. Later bytes are dropped. */
export function abandonBody(request: ReadRequest): void {
  request[reader] = undefined;
}

function onData(this: ReadRequest, chunk: Buffer): void {
  this[reader]?.onData(chunk);
}

function onEnd(this: ReadRequest): void {
  this[reader]?.onEnd();
}

class BodyReader<Owner> {
  readonly #capBytes: number;
  readonly #owner: Owner;
  readonly #listener: BodyListener<Owner>;
  /** Almost every body fits one chunk, which is then passed on without a copy. */
  #first: Buffer | undefined;
  #chunks: ChunkList | undefined;
  #bytes = 0;

  constructor(capBytes: number, owner: Owner, listener: BodyListener<Owner>) {
    this.#capBytes = capBytes;
    this.#owner = owner;
    this.#listener = listener;
  }

  onData(chunk: Buffer): void {
    const had = this.#bytes;
    this.#bytes += chunk.length;
    if (this.#bytes > this.#capBytes) {
      this.#first = undefined;
      this.#chunks = undefined;
      if (had <= this.#capBytes) this.#listener.onEnd(this.#owner, tooLarge);
      return;
    }
    if (this.#first === undefined) this.#first = chunk;
    else this.#addTo(this.#first, chunk);
    // Must be last, because the listener may abandon the body.
    this.#listener.onData(this.#owner, chunk.length);
  }

  onEnd(): void {
    if (this.#bytes > this.#capBytes) return;
    if (this.#first === undefined) return this.#listener.onEnd(this.#owner, none);
    const body = this.#chunks?.join(this.#bytes) ?? this.#first;
    // The request keeps this reader until the answer has ended, so the chunks are released here.
    this.#first = undefined;
    this.#chunks = undefined;
    this.#listener.onEnd(this.#owner, { kind: "body", body });
  }

  #addTo(first: Buffer, chunk: Buffer): void {
    if (this.#chunks === undefined) {
      this.#chunks = new ChunkList();
      this.#chunks.add(first);
    }
    this.#chunks.add(chunk);
  }
}

/** Smaller chunks are copied into blocks of this size. */
const blockBytes = 4_096;

/** The chunks of a body. A client can send chunks of one byte, and a Buffer for each would cost 200 bytes. */
class ChunkList {
  readonly #chunks: Buffer[] = [];
  /** The block that is being filled, which follows the chunks. */
  #block: Buffer | undefined;
  #filled = 0;

  /** The chunk must not change afterwards. */
  add(chunk: Buffer): void {
    if (this.#filled + chunk.length > blockBytes) this.#closeBlock();
    if (chunk.length >= blockBytes) {
      this.#chunks.push(chunk);
      return;
    }
    this.#block ??= Buffer.allocUnsafeSlow(blockBytes);
    this.#filled += chunk.copy(this.#block, this.#filled);
  }

  join(bytes: number): Buffer {
    this.#closeBlock();
    return Buffer.concat(this.#chunks, bytes);
  }

  #closeBlock(): void {
    if (this.#block !== undefined) this.#chunks.push(this.#block.subarray(0, this.#filled));
    this.#block = undefined;
    this.#filled = 0;
  }
}
