/** A request to a backend over HTTP/1.1 and the receiver of its answer. The types of `Http1Client` and its callers. */
import type { Clock } from "../../../contract/clock.ts";
import type { Carrier, UpstreamFailure } from "../upstream-client.ts";
import type { ResponseHead } from "./response-head.ts";

/**
 * When a request is sent again, on a new connection, because the backend closed a kept connection (RFC 9110 section
 * 9.2.2). `ifUnanswered`: the answer had not begun. `ifUnwritten`: the kernel had not accepted the whole request, so
 * the backend cannot have read it. `never`: the first attempt is made on a new connection, too.
 */
export type Repeat = "ifUnanswered" | "ifUnwritten" | "never";

/** The connection that carries the exchange. After `abort`, the exchange is not called any more. */
export interface Http1Carrier extends Carrier {
  /** True once the kernel has accepted the whole request. */
  readonly hasSent: boolean;
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
  onStart(carrier: Http1Carrier): void;
  onHead(head: ResponseHead): void;
  /** Called with a piece of the body, which is borrowed. */
  onData(bytes: Buffer, start: number, end: number): void;
  /** Called after all data of one read has been passed on. */
  onRead(): void;
  onEnd(): void;
  onError(failure: UpstreamFailure): void;
}

/** The backend of a client, and the limits on its use. */
export interface Http1Options {
  /** Only its scheme, host and port are used. */
  readonly url: URL;
  /** Maximum number of concurrent connections. */
  readonly connections: number;
  readonly connectMs: number;
  /** The shortest `answerMs` of an exchange. */
  readonly answerMs: number;
  /** Maximum pause between two reads of an answer. */
  readonly idleMs: number;
  /** Time after which an unused connection is closed. */
  readonly unusedMs: number;
  /** Maximum size of the body of an answer. */
  readonly maxAnswerBytes: number;
  readonly clock: Clock;
  /** Called when a callback of an exchange threw. */
  readonly onBug: (error: unknown) => void;
}
