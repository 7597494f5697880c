/** The services `host.upstream` and `host.forwarder`: implemented in src/stream. */
import type { Exchange, Reply } from "../plugin.ts";
import type { TraceSpan } from "./trace.ts";

/** What changes on the way through a forwarder. Header names in any case. */
export interface ForwardOptions {
  readonly request?: FieldChanges;
  readonly response?: FieldChanges;
  /** Sends the client's `Authorization`, which holds its API key, to the upstream. */
  readonly passAuthorization?: boolean;
  /** The largest request body, bytes; undefined: any. */
  readonly bodyBytes?: number;
}
export interface FieldChanges {
  /** Sent instead of any field of the same name. */
  readonly set?: Readonly<Record<string, string>>;
  readonly remove?: readonly string[];
}

/** What one request is forwarded with. */
export interface ForwardWith {
  /** Path and query, `/…`, in place of the request's own. */
  readonly target?: string;
  /** Sent as `X-Request-Id` in place of what the client may have sent, unless the options set or remove that field. */
  readonly requestId?: string | undefined;
  /**
   * The request gets a span below it, whose context the upstream gets in place of the client's, unless the options set
   * or remove `traceparent` or `tracestate`.
   */
  readonly trace?: TraceSpan | undefined;
}

/** The streamed way to an upstream (src/stream): bodies pass in both directions and are held in neither. */
export interface Forwarder {
  /**
   * Sends the request on and streams the answer back. Resolves to a Reply when nothing reached the client (503 of a
   * failed upstream, 413), to undefined when the answer has ended, however it did. Rejects only for bugs.
   */
  forward(x: Exchange, forwarded?: ForwardWith): Promise<Reply | undefined>;
}

/** An upstream of pipeline.yaml as written there, defaults filled in. */
export interface Upstream {
  readonly name: string;
  readonly urls: readonly string[];
  readonly connectMs: number;
  readonly headersMs: number;
  readonly idleMs: number;
  /** The most connections to one url. */
  readonly connections: number;
}
