/** An answer of known size, and the limit that a refusal can name. */

/** A limit that a request would exceed. */
export interface LimitReached {
  /** The scope of the limit, such as `address` or `24h`. */
  readonly scope: string;
  /** The unit that is counted, such as `requests`. */
  readonly unit: string;
  readonly used: number;
  readonly limit: number;
  /**
   * When the limit leaves room again, in milliseconds since 1970. Missing if the plugin does not know. A function is
   * called each time the limit is shown. It must not keep the exchange or the host alive.
   */
  readonly clearsAt?: number | (() => number | undefined);
}

/** The contents of the envelope of a refusal. */
export interface Refusal {
  readonly message: string;
  /** Undefined if there are none. */
  readonly details: Readonly<Record<string, unknown>> | undefined;
}

/**
 * An answer of known size. A plugin returns a Reply for an expected failure and never throws for it. `refuse` makes the
 * Reply for a failure with a code.
 */
export interface Reply {
  readonly status: number;
  /**
   * A flat list of name, value, name, value … in the order in which they are sent. The core adds `Content-Length`, and
   * drops headers that belong to a connection, such as `Keep-Alive`. In strict mode they are an error.
   */
  readonly headers?: readonly string[];
  readonly body?: string | Uint8Array;
  /** A body in several pieces, which are sent in this order without a copy. They must not change afterwards. */
  readonly pieces?: readonly Uint8Array[];
  /** The `GATEWAY_*` code of a refusal, for logs and metrics. */
  readonly code?: string;
  /**
   * Why the request was refused, in words from a short list, such as `expired`. For logs and `sluice explain`; it is not
   * sent to the client.
   */
  readonly reason?: string;
  /** The contents of a refusal, which `refuse` sets. A surface can render them in its own shape. */
  readonly refusal?: Refusal;
  /** The limit that refused the request, for `sluice explain`. It is not sent to the client. */
  readonly reached?: LimitReached;
  /** How the exchange ends, if the reply replaces the missing answer of an upstream. */
  readonly outcome?: "upstreamFailed" | "timedOut";
}

/** A Reply of `refuse`. */
export type Refused = Reply & Required<Pick<Reply, "code" | "refusal">>;
