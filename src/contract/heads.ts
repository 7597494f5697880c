/** The heads of the request and of its response. */
import type { IncomingHttpHeaders } from "node:http";

/**
 * The head of the client's request. Header names are in lower case. `path` does not contain the query, and `query` does
 * not contain the question mark. Do not change the object: requests on a connection that have the same head share their
 * headers. Strict mode freezes it.
 */
export interface RequestHead {
  readonly method: string;
  readonly path: string;
  readonly query: string;
  /** Path and query exactly as received, without scheme and authority. */
  readonly target: string;
  readonly headers: Readonly<IncomingHttpHeaders>;
  /** A flat list of name, value … exactly as received. */
  readonly rawHeaders: readonly string[];
  /** Values of the `{name}` segments of the route's path, percent-decoded. */
  readonly params: Readonly<Record<string, string>>;
  /**
   * Address of the client: the address of the socket, or the one in `X-Forwarded-For` if the peer is listed in
   * `server.trustProxy`.
   */
  readonly address: string;
  /**
   * The other end of the socket. `trusted`: true if `server.trustProxy` lists it; then its `X-Forwarded-*` fields are
   * used. `encrypted`: true if the connection to it uses TLS.
   */
  readonly peer: {
    readonly address: string;
    readonly trusted: boolean;
    readonly encrypted?: boolean;
  };
  /** True if the request announces a body (`Content-Length` above 0, or chunked). */
  readonly hasBody: boolean;
}

/** The head of the response on its way up. Names are case-insensitive, and the order of the fields is kept. */
export interface ResponseHead {
  status: number;
  /** `step` if a step on the way down (or the core) answered instead of the surface. */
  readonly from: "step" | "surface";
  /** True if the body is streamed. Its size and its cost are then not known yet. */
  readonly streamed: boolean;
  /** The code of a refusal. Undefined if the response is not a refusal. */
  readonly code: string | undefined;
  get(name: string): string | undefined;
  /** Replaces every field with this name. */
  set(name: string, value: string): void;
  /** Adds a field and keeps the existing fields with this name. */
  add(name: string, value: string): void;
  remove(name: string): void;
}
