/** How a surface answers without a Reply: a stream, or an accepted WebSocket. */

/**
 * A streamed answer of a surface. The head has already passed `responseHeaders` and has been sent. The surface MUST
 * call exactly one of `end` and `fail`, exactly once, before it returns.
 */
export interface Sink {
  /**
   * Sends a borrowed chunk or a string. Prefer strings for many small chunks; `latin1` (one byte per character) is the
   * cheapest. Returns false if the surface should stop until `onDrain` runs (backpressure from the client).
   */
  write(chunk: Uint8Array | string, encoding?: "utf8" | "latin1"): boolean;
  /**
   * Called each time the client has room again after `write` returned false. Set it only then: a closure per stream
   * makes V8 keep the whole exchange until its next major collection (measured on Node 26: 8 KB per stream).
   */
  onDrain: (() => void) | undefined;
  /**
   * Runs every `responseEnd` hook and then sends the last byte. Resolves when the last byte has been handed to the
   * socket. `last`: the chunk that reports success to the client (`data: [DONE]`); it is sent after the hooks, too.
   * `outcome`: set if the answer itself reports that it is incomplete (an error as the last event of a stream).
   */
  end(
    trailers?: readonly string[],
    last?: Uint8Array,
    outcome?: "upstreamFailed" | "timedOut",
  ): Promise<void>;
  /**
   * Reports that the answer cannot be completed. The connection is cut, so that the client cannot mistake the answer
   * for a complete one.
   */
  fail(outcome: "upstreamFailed" | "timedOut"): void;
}

/** The options with which a surface accepts an upgrade. */
export interface AcceptOptions {
  /** The subprotocol to select, one of those that the client offers. Undefined for no subprotocol. */
  readonly protocol: string | undefined;
  /** Maximum size of a message in bytes. A larger message closes the connection with code 1009. */
  readonly messageBytes: number;
}

/**
 * A WebSocket that a surface has accepted (RFC 6455). When either side has closed it, the exchange ends, too.
 */
export interface Connection {
  /**
   * Sends a message: a string as text, bytes as binary unless `isText` is true (then they must be UTF-8). Returns false if
   * the surface should stop until `onDrain` runs (backpressure from the client).
   */
  send(message: string | Uint8Array, isText?: boolean): boolean;
  /** Number of bytes that wait in the memory of the gateway because the client has not read enough. */
  readonly unsentBytes: number;
  /** Called each time the client has room again after `send` returned false. */
  onDrain: (() => void) | undefined;
  /** Called for each message. Messages received before it is set are queued. */
  onMessage: ((data: Buffer, isText: boolean) => void) | undefined;
  /** Called once when the connection has ended, with the client's close code (1006 if the client sent none). */
  onClose: ((code: number) => void) | undefined;
  /** Called at most once, when the gateway is stopping. Finish the running work, then call `close`. */
  onGoAway: (() => void) | undefined;
  /** Stops reading messages, so that they wait at the client until `resume`. */
  pause(): void;
  resume(): void;
  /**
   * Starts the closing handshake. The connection is cut if the client does not answer soon. `reason`: at most 123
   * bytes.
   */
  close(code: number, reason: string): void;
}
