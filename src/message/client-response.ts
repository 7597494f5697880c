/** The client's end of an exchange, as the pipeline writes to it. It is implemented by node:http and the fast path. */

/** Receives the events of one response. It is an object and not a function, so that a request needs no closure. */
export interface ResponseOwner {
  /** Called once, when nothing more is sent. `isComplete`: true if the whole response was handed to the kernel. */
  onClose(isComplete: boolean): void;
}

/** A response to a client. The names of its members are those of node:http, whose response is one implementation. */
export interface ClientResponse {
  /** False if the connection closes after this response. */
  shouldKeepAlive: boolean;
  readonly headersSent: boolean;
  /** True after everything was handed to the kernel. */
  readonly writableFinished: boolean;
  /** Number of bytes that the kernel has not taken yet. */
  readonly writableLength: number;
  /**
   * `drained` is called when there is room again after `writeChunk` returned false. It is an object and not a function,
   * because a closure that is stored for each stream makes V8 keep the whole exchange until its next major collection.
   */
  onDrain: { drained(): void } | undefined;
  /** Called when the client has ended its side over HTTP/1.1. What has not been written after this call is lost. */
  onHalfClose: (() => void) | undefined;

  begin(owner: ResponseOwner): void;
  writeContinue(): void;
  writeEarlyHints(hints: Record<string, string | string[]>): void;
  /** `fields`: flat list of name, value … Throws for a status or a field that HTTP does not allow. */
  writeHead(status: number, fields?: string[]): unknown;
  /** Sends the whole body. `encoding`: encoding of a text; `latin1` is cheaper for text that is only ASCII. */
  end(body: string | Uint8Array, encoding: "utf8" | "latin1"): unknown;

  /** Sends the head now. Without this call, it is sent together with the first chunk. */
  flushHeaders(): void;
  /** Sends a chunk in the framing that the head announced. Returns false if the caller should wait. */
  writeChunk(chunk: Uint8Array | string, length: number): boolean;
  /** Ends a body of chunks. `done`: called once, when everything was handed to the kernel or never will be. */
  endChunks(
    last: Uint8Array | undefined,
    trailers: [string, string][] | undefined,
    done: () => void,
  ): void;

  destroy(): unknown;
}
