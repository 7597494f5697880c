/**
 * The contract of the clients that send requests to backends. There are two: `Http1Client` for nodes and workers, and
 * `UndiciClient` for `forward`.
 */
export interface UpstreamClient<Exchange> {
  send(exchange: Exchange): void;
  /** Lets the exchanges in flight end, and then closes. A draining client gets no new exchanges. */
  drain(): Promise<void>;
  /** Closes every connection; exchanges in flight fail. Resolves when the last socket has closed. */
  close(): Promise<void>;
}

/** The connection that carries an exchange, as the exchange sees it. */
export interface Carrier {
  /** Stops reading. The time limits do not run meanwhile. */
  pause(): void;
  resume(): void;
  /** Closes the connection because the answer is not needed any more. */
  abort(): void;
}

export type UpstreamFailure =
  /** No connection could be made. */
  | "refused"
  | "connectTimeout"
  /** The connection ended before the answer was complete. */
  | "closed"
  /** The head of the answer did not arrive in time. */
  | "answerTimeout"
  /** The answer was incomplete, and nothing more arrived. */
  | "idleTimeout"
  /** The answer is not valid HTTP/1.1. */
  | "garbage"
  | "tooLarge"
  /** Too many exchanges waited for a connection, or this one waited for too long. */
  | "saturated"
  /** The client was closed. */
  | "closing"
  /** A callback of the exchange threw, which is a bug. */
  | "internal";
