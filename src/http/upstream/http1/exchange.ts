/** A request to a backend over HTTP/1.1 and the receiver of its answer. The types of `Http1Client` and its callers. */
import type { ResponseHead } from "./response-head.ts";

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

/**
 * When a request is sent again, on a new connection, because the backend closed a kept connection (RFC 9110 section
 * 9.2.2). `ifUnanswered`: the answer had not begun. `ifUnwritten`: the kernel had not accepted the whole request, so
 * the backend cannot have read it. `never`: the first attempt is made on a new connection, too.
 */
export type Repeat = "ifUnanswered" | "ifUnwritten" | "never";

/** The connection that carries an exchange, as the exchange sees it. */
export interface Carrier {
  /** True once the kernel has accepted the whole request. */
  readonly hasSent: boolean;
  /** Stops reading. The time limits do not run meanwhile. */
  pause(): void;
  resume(): void;
  /** Closes the connection because the answer is not needed any more. The exchange is not called any more. */
  abort(): void;
}

/**
 * Exactly one of `onEnd` and `onError` is called, once, and never before `Http1Client.send` has returned, unless the
 * exchange was aborted.
 */
export interface UpstreamExchange {
  /** The request line and all fields except `Content-Length`, each with its CRLF. Characters are bytes (latin1). */
  readonly head: string;
  readonly repeat: Repeat;
  /** Maximum time until the head of the answer, in milliseconds. */
  readonly answerMs: number;
  /** Returns the body of the request. Text is sent as UTF-8. Called when the request is written. */
  body(): string | Buffer;
  /** Called when a connection has been chosen, which may not be open yet. */
  onStart(carrier: Carrier): void;
  onHead(head: ResponseHead): void;
  /** Called with a piece of the body, which is borrowed. */
  onData(bytes: Buffer, start: number, end: number): void;
  /** Called after all data of one read has been passed on. */
  onRead(): void;
  onEnd(): void;
  onError(failure: UpstreamFailure): void;
}
