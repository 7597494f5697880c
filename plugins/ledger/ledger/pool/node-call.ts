import type { Http1Carrier } from "sluice-gateway/internal/http";
import type { UpstreamFailure } from "sluice-gateway/plugin";
import { splitResponse } from "./split-response.ts";
import type { NodeRequest } from "../node-pool.ts";
import { failures, type Failure } from "./failure.ts";

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
  onCarrier?(carrier: Http1Carrier | undefined): void;
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

  onCarrier(carrier: Http1Carrier | undefined): void {
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
