import type { Readable } from "node:stream";
import type { Clock } from "../../../contract/clock.ts";
import type { UpstreamFailure } from "../../../contract/upstream-failure.ts";
import type { ResponseHead } from "./response-head.ts";

/**
 * When a request is sent again, on a new connection, because the backend closed a kept connection (RFC 9110 section
 * 9.2.2). `ifUnanswered`: the answer had not begun. `ifUnwritten`: the kernel had not accepted the whole request, so
 * the backend cannot have read it. `never`: the first attempt is made on a new connection, too. `failsIfStale`: not
 * sent again, although the first attempt may use a kept connection. A request with a streamed body is not sent again,
 * because parts of the body are gone.
 */
export type RetryPolicy = "ifUnanswered" | "ifUnwritten" | "never" | "failsIfStale";

/** The connection that carries an exchange, or the place in the queue. Do not use it after `onEnd` or `onError`. */
export interface Http1Carrier {
  /** True once the kernel has accepted the whole request. */
  readonly hasSent: boolean;
  /** Stops reading. The time limits do not run meanwhile. */
  pause(): void;
  resume(): void;
  /** Closes the connection because the answer is not needed any more. The exchange is not called any more. */
  abort(): void;
}

export interface StreamedBody {
  /** The exact size in bytes. Undefined if it is unknown; the body is then sent in chunks. */
  readonly length: number | undefined;
  readonly maxBytes: number;
  /** Returns the stream of Buffers. Called once, when the head was written to an open connection. */
  open(): Readable;
  /**
   * Called when the stream ended too early or was too long. The request must then be aborted. `tooLarge`: the excess
   * was not sent.
   */
  onError(reason: "tooLarge" | "incomplete"): void;
}

/**
 * Either `onEnd` or `onError` is called, once, after `Http1Client.send` has returned, unless the exchange was aborted.
 */
export interface UpstreamExchange {
  /** The request line and all fields except those that frame the body, each with its CRLF, in latin1. */
  readonly head: string;
  readonly retryPolicy: RetryPolicy;
  /** The caller for whom the request is sent, for example a tenant. Connections are shared among callers. */
  readonly caller?: string | undefined;
  /** Maximum time until the head of the answer, in milliseconds. It restarts when a part of a streamed body is sent. */
  readonly answerMs: number;
  /** `null` for a request without content. Text is sent as UTF-8. Called each time the request is written. */
  body(): string | Buffer | StreamedBody | null;
  /**
   * Called when the exchange waits for a connection, and when one has been chosen, which may not be open yet. The last
   * carrier is the valid one.
   */
  onStart(carrier: Http1Carrier): void;
  onInterim?(head: ResponseHead): void;
  onHead(head: ResponseHead): void;
  /** Called with a piece of the body, which is borrowed. */
  onData(bytes: Buffer, start: number, end: number): void;
  /** Called after all data of one read has been passed on. */
  onRead(): void;
  /** `trailers`: a flat list of names and values, which is empty without `keepsFields`. */
  onEnd(trailers: readonly string[]): void;
  onError(failure: UpstreamFailure): void;
}

export interface Http1Options {
  /** Only its scheme, host and port are used. */
  readonly url: URL;
  readonly connections: number;
  /** Time limit for opening a connection, and for waiting for one. */
  readonly connectMs: number;
  /** The shortest `answerMs` of an exchange. */
  readonly answerMs: number;
  /** Maximum pause between two reads of an answer. */
  readonly idleMs: number;
  /** Time after which an unused connection is closed. */
  readonly unusedMs: number;
  readonly maxAnswerBytes: number;
  /** Keeps the fields of answers as text, for exchanges that pass them on. Off if missing. */
  readonly keepsFields?: boolean;
  readonly clock: Clock;
  /** Called when a callback of an exchange threw. */
  readonly onBug: (error: unknown) => void;
}
