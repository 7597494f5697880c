import type { UpstreamFailure } from "sluice-gateway/plugin";
import { splitResponse } from "./split-response.ts";
import type { CallCarrier, NodeFailure, NodeRequest } from "../node-pool.ts";

export interface Failure {
  readonly kind: UpstreamFailure["kind"];
  readonly reason: NodeFailure;
  readonly retryElsewhere: boolean;
  /** True if the failure is the node's fault. Several in a row eject the node. */
  readonly countsAgainstNode: boolean;
}

const failure = (
  kind: Failure["kind"],
  reason: NodeFailure,
  retryElsewhere: boolean,
  countsAgainstNode: boolean,
): Failure => ({ kind, reason, retryElsewhere, countsAgainstNode });

export const failures = {
  refused: failure("refused", "unreachable", true, true),
  connectTimeout: failure("connectTimeout", "timeout", true, true),
  /** The connection ended before the answer was complete. */
  closed: failure("closed", "unreachable", true, true),
  /**
   * The node sent nothing within `headersMs`. The call is not retried: a call that one node cannot answer in time is
   * probably expensive, and running it on three nodes would triple the effect of an attack.
   */
  answerTimeout: failure("answerTimeout", "timeout", false, true),
  /** The answer was incomplete, and nothing arrived for `idleMs`. */
  idleTimeout: failure("idleTimeout", "timeout", true, true),
  /** HTTP 429 or 5xx. */
  status: failure("status", "unreachable", true, true),
  garbage: failure("garbage", "garbage", true, true),
  /** The answer was empty, although the node has reported the block. */
  unusable: failure("unusable", "garbage", true, true),
  /** The answer was larger than `answerBytes`. It would be as large from any other node. */
  tooLarge: failure("tooLarge", "garbage", false, false),
  /** A bug in the gateway. */
  internal: failure("internal", "unreachable", false, false),
  /** The gateway's limit on connections and waiting calls was reached. */
  saturated: failure("saturated", "unreachable", true, false),
  closing: failure("closing", "unreachable", false, false),
} as const;

/**
 * An HTTP request to a node: a single call or a batch. Exactly one of `onResponse` and `onError` is called, once, and never
 * before the client's `send` has returned.
 */
export interface NodeHttpRequest {
  /** True if the request may be sent again if the connection was already closed by the node. */
  readonly retry: boolean;
  readonly caller?: string | undefined;
  text(): string;
  /** Called with a whole response whose status is neither 429 nor 5xx. The bytes are borrowed. */
  onResponse(status: number, bytes: Buffer, start: number, end: number): void;
  onError(failure: Failure, cause?: UpstreamFailure): void;
  onCarrier?(carrier: CallCarrier | undefined): void;
}

export interface NodeClient {
  /** Number of requests that were sent or are waiting. */
  readonly inFlight: number;
  /** Sends a call. `onAnswer` or `onError` of the call is called, never before this method has returned. */
  send(call: NodeCall): void;
  /** Closes every connection; calls in flight fail. Resolves when the last socket has closed. */
  close(): Promise<void>;
}

export type CallSpec = Pick<
  NodeRequest,
  "method" | "params" | "retry" | "cheap" | "caller" | "onCarrier"
>;

/** The id that `splitResponse` returns if the id is absent, null or not a number that the gateway sends. */
export const noId = -1;

/** A call to one node. A retry on another node uses the same object. */
export abstract class NodeCall implements NodeHttpRequest {
  readonly spec: CallSpec;
  /** Set by the client that sends the call. The node's answer must have this id. */
  id = 0;
  /** Deadline in ticks of the `Ticker` of the client that sends the call. */
  deadline = 0;

  constructor(spec: CallSpec) {
    this.spec = spec;
  }

  abstract onAnswer(kind: "result" | "error", bytes: Buffer, start: number, end: number): void;
  abstract onError(failure: Failure, cause?: UpstreamFailure): void;

  get retry(): boolean {
    return this.spec.retry;
  }

  get caller(): string | undefined {
    return this.spec.caller;
  }

  text(): string {
    const { method, params } = this.spec;
    const list = params === "" ? "[]" : params;
    return `{"jsonrpc":"2.0","id":${this.id},"method":"${method}","params":${list}}`;
  }

  onCarrier(carrier: CallCarrier | undefined): void {
    this.spec.onCarrier?.(carrier);
  }

  onResponse(status: number, bytes: Buffer, start: number, end: number): void {
    const split = splitResponse(bytes, start, end);
    if (split === undefined) return this.onError(failures.garbage);
    // JSON-RPC 2.0 section 5: the id of an error is null if the server could not read the id of the request.
    const ours = split.id === this.id || (split.kind === "error" && split.id === noId);
    const success = status >= 200 && status < 300;
    if (ours && (success || (split.kind === "error" && status >= 400))) {
      this.onAnswer(split.kind, bytes, split.start, split.end);
    } else {
      this.onError(failures.garbage);
    }
  }
}
