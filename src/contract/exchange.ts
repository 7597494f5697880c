/** One request and its answer, as plugins see them. */
import type { Readable } from "node:stream";
import type { AcceptOptions, Connection, Sink } from "./answer.ts";
import type { CallReport, ReportedCalls } from "./called.ts";
import type { RequestHead } from "./heads.ts";
import type { Awaitable } from "./phase.ts";
import type { LimitReached, Reply } from "./reply.ts";
import type { Facts, NotedFacts, SlotName, Slots } from "./slots.ts";

/**
 * One request and its answer. Valid until `settled` returns. Call its methods on the object; they cannot be
 * destructured.
 */
export interface Exchange {
  readonly request: RequestHead;
  /**
   * The path of the route, as written in pipeline.yaml, and the name of its surface. Both are safe as metric labels.
   */
  readonly route: { readonly path: string; readonly surface: string };
  /** `clock.now()` and `clock.monotonic()` at arrival, in milliseconds. */
  readonly arrivedAt: number;
  readonly arrivedMonotonic: number;

  /** Reads a slot that the manifest lists in `needs`. Throws if the slot was never set, which is a bug. */
  get<S extends SlotName>(slot: S): Slots[S];
  /** Reads a slot that the manifest lists in `wants`. Undefined if no plugin has set it. */
  peek<S extends SlotName>(slot: S): Slots[S] | undefined;
  /** Sets a slot that the manifest lists in `provides`. Throws if it is already set, which is a bug. */
  set<S extends SlotName>(slot: S, value: Slots[S]): void;

  /** Adds a fact for observers: see `Facts`. A later value replaces an earlier one. */
  note<F extends keyof Facts>(name: F, value: Facts[F] | undefined): void;
  /** The facts that were noted so far. */
  readonly facts: Readonly<NotedFacts>;

  /**
   * The whole body, if the route buffers it (for a `requestBody` hook or a surface with `body`). The bytes are
   * borrowed.
   */
  readonly body: Buffer | undefined;
  /** Replaces the buffered body for the hooks below and the surface. */
  replaceBody(body: Buffer): void;
  /**
   * Releases the buffered body and its parsed value. Meant for a surface that has read the body and streams for a long
   * time. After this call `body` is undefined, on the way up too.
   */
  dropBody(): void;
  /**
   * Returns the body parsed as JSON. It is parsed once for all plugins. `{ ok: false }` if the body is not JSON in
   * UTF-8, or has more than 65,536 members and elements or more than 128 levels.
   */
  json(): { readonly ok: true; readonly value: unknown } | { readonly ok: false };
  /**
   * Returns the body as a stream, for a surface that does not declare `body`. Reading from it sends `100 Continue` if
   * the client asked for that.
   */
  bodyStream(): Readable;

  /**
   * Sets a header of the request that the surface sends to its upstream. It replaces a header of the client with the
   * same name. A header that the operator has configured for the upstream stays. Used by `forward` and by the networks;
   * nodes do not get it, because callers share their answers. Throws if HTTP does not allow the name or the value, and
   * for headers that belong to a connection, such as `Content-Length` and `Host`.
   */
  setUpstreamHeader(name: string, value: string): void;
  /** The headers that were set so far, as a flat list of name (in lower case), value … A surface sends them. */
  readonly upstreamHeaders: readonly string[];

  /** Aborts when the client has left or the gateway cuts the exchange. Created on first use. */
  readonly signal: AbortSignal;
  /** True after `signal` has aborted. Reading it creates no signal. */
  readonly aborted: boolean;
  /**
   * Called at most once, when `signal` would abort. A hot path sets it instead of creating a signal. It is an object
   * and not a function, because a closure that is stored for each request makes V8 keep the whole exchange until its
   * next major collection (measured on Node 26: 6 to 9 µs per request).
   */
  onAbort: { aborted(): void } | undefined;
  /** True after the client has left. */
  readonly clientLeft: boolean;
  /** Opens a streamed answer: runs `responseHeaders` and sends the head. Only for surfaces, at most once. */
  stream(status: number, headers: readonly string[]): Promise<Sink>;
  /**
   * Accepts the upgrade on a route with `websocket: true`: runs `responseHeaders` and answers 101. Only for surfaces
   * that declare `websocket`, at most once. To refuse the upgrade, return a Reply instead. `answer` resolves when the
   * surface has finished with the connection.
   */
  accept(options: AcceptOptions): Promise<Connection>;
  /**
   * Runs the `message` hooks of the steps, for a message that has arrived on an accepted WebSocket. Returns the Reply of
   * the step that refuses the message, or undefined. A hook that fails refuses the message, too, with
   * `GATEWAY_INTERNAL_ERROR`. Never throws or rejects.
   */
  admit(): Awaitable<Reply | undefined>;
  /**
   * Records the limit that refused the request (or one call of a batch), for `sluice explain`; it is not sent to the
   * client. The last recorded limit is shown, unless a Reply has `reached`.
   */
  limitReached(reached: LimitReached): void;
  /**
   * Reports one call that the exchange carried (a method, a tool), when the call has ended. Call it once per call,
   * including calls that were refused or failed in an answer with HTTP status 200.
   */
  called(report: CallReport): void;
  /** All calls that were reported so far. Undefined if there were none. */
  readonly calls: ReportedCalls | undefined;
  /** Sends a 1xx (103 Early Hints) before the answer. */
  informational(status: number, headers: readonly string[]): void;

  /**
   * The part of the response that was sent so far. `status` is 0 before the head is sent. In `settled`, `code` is the
   * code of the last failed call if the answer itself was not a refusal.
   */
  readonly sent: {
    readonly status: number;
    readonly bodyBytes: number;
    readonly code: string | undefined;
    /** The reason of the refusal, or the scope of the limit that was reached. */
    readonly reason?: string | undefined;
  };
}
