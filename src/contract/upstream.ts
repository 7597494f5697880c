/** The service `upstreams`: the backends of the section `upstreams`. Implemented in src/http/upstream. */
import type { Exchange } from "./exchange.ts";
import type { Reply } from "./reply.ts";
import type { TraceSpan } from "./trace.ts";

/** The changes that a forwarder makes. Header names are compared without case. */
export interface ForwardOptions {
  readonly request?: FieldChanges;
  readonly response?: FieldChanges;
  /** Forwards the `Authorization` header, which contains the client's API key, to the upstream. */
  readonly passAuthorization?: boolean;
  /** Maximum size of a request body in bytes. Undefined if there is no limit. */
  readonly bodyBytes?: number;
}
export interface FieldChanges {
  /** Fields that replace all fields of the same name. */
  readonly set?: Readonly<Record<string, string>>;
  readonly remove?: readonly string[];
}

/** Settings of a single forwarded request. */
export interface ForwardWith {
  /** Path and query (`/…`) that replace those of the request. */
  readonly target?: string;
  /** Replaces the `X-Request-Id` of the client, unless the options set or remove that field. */
  readonly requestId?: string | undefined;
  /**
   * Parent of the span of the upstream request. The trace context of that span replaces the one of the client, unless
   * the options set or remove `traceparent` or `tracestate`.
   */
  readonly trace?: TraceSpan | undefined;
}

/** Forwards requests to an upstream. Bodies are streamed in both directions and never buffered as a whole. */
export interface Forwarder {
  /**
   * Forwards the request and streams the answer back. Resolves to a Reply if nothing has reached the client, for
   * example 503 when the upstream failed or 413; resolves to undefined when the streamed answer has ended, whether it
   * is whole or not. Rejects only because of a bug.
   */
  forward(x: Exchange, forwarded?: ForwardWith): Promise<Reply | undefined>;
}

export interface Upstreams {
  /** Returns the upstream with this name in pipeline.yaml. Undefined if there is none. */
  get(name: string): Upstream | undefined;
  /** Returns a forwarder to the upstream with this name. Undefined if there is none. Its connections are shared. */
  forwarder(name: string, options?: ForwardOptions): Forwarder | undefined;
}

/** An upstream as configured in pipeline.yaml, with defaults filled in. */
export interface Upstream {
  readonly name: string;
  readonly urls: readonly string[];
  readonly connectMs: number;
  readonly headersMs: number;
  readonly idleMs: number;
  /** Maximum number of connections per URL. */
  readonly connections: number;
}

/** Limits of a client that `host.upstream` returns. */
export interface UpstreamClientOptions {
  /** Maximum number of connections. Default: 16. */
  readonly connections?: number;
  /** Time limit in milliseconds for opening a connection, and for waiting for one. Default: 2,000. */
  readonly connectMs?: number;
  /** Time limit in milliseconds until the head of an answer arrives. Default: 10,000. */
  readonly answerMs?: number;
  /** Maximum pause in milliseconds between two parts of an answer. Default: 10,000. */
  readonly idleMs?: number;
  /** Maximum size in bytes of the body of an answer. Default: 1 MiB. */
  readonly maxAnswerBytes?: number;
}

/** A request of a plugin's own to a server. */
export interface UpstreamRequest {
  /** Default: `GET`. */
  readonly method?: string;
  /** Path and query, which are appended to the path of the client's URL. Default: the URL's own path and query. */
  readonly path?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Buffer;
  /** Ends the request when it aborts. */
  readonly signal?: AbortSignal;
}

/** The answer of a server, of any status. */
export interface UpstreamAnswer {
  readonly status: number;
  /**
   * The headers by name in lower case. The values of equal names are joined with commas. `set-cookie`, whose values
   * cannot be joined, is only in `replyHeaders`.
   */
  readonly headers: Readonly<Record<string, string>>;
  /**
   * The headers for a surface that returns the answer, as `Reply.headers` takes them: without those that belong to the
   * connection with the server, such as `content-length`.
   */
  readonly replyHeaders: readonly string[];
  readonly body: Buffer;
}

/**
 * A client with a pool of connections to one server. If the server closes a kept connection, a request is sent once
 * more: a request with an idempotent method if its answer had not begun, and any other request only if the server
 * cannot have read it.
 */
export interface UpstreamClient {
  /** Rejects with an Error if there is no complete answer, and with the reason of `signal` if it aborts. */
  request(request?: UpstreamRequest): Promise<UpstreamAnswer>;
  /**
   * Sends a request for a library that expects the standard `fetch`. It behaves as `request` does, with the same
   * connections, limits and errors, and can be passed on without the client. It differs from the standard function:
   *
   * - The address must be the client's URL or below it. Any other address is a TypeError, so neither a redirect nor an
   *   address in an answer can lead the library to another server.
   * - It resolves when the answer is complete. An answer that never ends, such as an open event stream, fails at a limit.
   * - Redirects are returned and not followed. Content codings are neither requested nor decoded.
   * - A stream in `init.body` is a TypeError. The body of a `Request` is read completely before it is sent.
   */
  readonly fetch: (input: string | URL | Request, init?: RequestInit) => Promise<Response>;
  /** Returns true if the last request got an answer or none was sent, else the reason, as `ServiceHooks.ready` needs it. */
  ready(): true | string;
}
