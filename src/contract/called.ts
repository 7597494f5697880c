/**
 * Reports of what a request called. One HTTP request can carry many calls (a JSON-RPC array, `gateway_batch`, a
 * WebSocket), and a call can fail in an answer with HTTP status 200. Surfaces report each call to the exchange; the
 * access log, the metrics, the Live view and `sluice explain` read the report from there.
 */

/** `node`: a method of the node. `protocol`: a method of JSON-RPC or MCP that is not a tool, such as `tools/list`. */
export type CallKind = "node" | "tool" | "protocol" | "model";

/** One call that has ended. */
export interface CallReport {
  readonly kind: CallKind;
  /** Method, tool or model. */
  readonly name: string;
  /**
   * True if the deployment lists the name (whitelist, catalogue, models). Any other name is the client's own text:
   * metrics count it as `other`, and logs show `other` too unless it looks like the name of a method or tool.
   */
  readonly isListed: boolean;
  /** Why the call was refused or failed: a `GATEWAY_*` code, or a key of `callFailures`; undefined if it succeeded. */
  readonly code?: string | undefined;
}

/** Receives a report of each call, when the call has ended. */
export interface CallReporter {
  called(report: CallReport): void;
}

/** All calls of one exchange. */
export interface ReportedCalls {
  /** Number of calls. */
  readonly items: number;
  /** Number of calls that were refused or failed. */
  readonly failed: number;
  /** Code of the last call that was refused or failed. */
  readonly code: string | undefined;
  /** Distinct names in the order in which their calls ended, at most 8. */
  readonly names: readonly string[];
}

/** Codes of calls that have no `GATEWAY_*` code, with the reason in words. */
export const callFailures = {
  PARSE_ERROR: "the body is not JSON",
  INVALID_REQUEST: "the request is not valid",
  INVALID_PARAMS: "the parameters are not valid",
  METHOD_NOT_ALLOWED: "method not whitelisted",
  METHOD_NOT_FOUND: "method not found",
  NODE_ERROR: "the node answered with an error",
  UPSTREAM_ERROR: "the upstream could not answer",
  MODEL_NOT_FOUND: "unknown model",
  MODEL_NOT_AVAILABLE: "the model has no active worker",
} as const;

export type CallFailureCode = keyof typeof callFailures;
