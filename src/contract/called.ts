/**
 * Reports of what a request called. One HTTP request can carry many calls (a JSON-RPC array, `gateway_batch`, a
 * WebSocket), and a call can fail in an answer with HTTP status 200. Surfaces report each call to the exchange; the
 * access log, the metrics, the Live view and `sluice explain` read the report from there.
 */

import type { UpstreamFailure } from "./upstream-failure.ts";

/** One call that has ended. */
export interface CallReport {
  /** The kind of the call, such as `tool`. `protocol`: a method of the protocol itself, such as `tools/list`. */
  readonly kind: string;
  /** Name of the method, the tool or whatever else was called. */
  readonly name: string;
  /**
   * True if the deployment lists the name. Any other name is the client's own text: metrics count it as `other`, and
   * logs show `other` too unless it looks like the name of a method. If such names can be any text, report `other`.
   */
  readonly isListed: boolean;
  /** Code of the refusal or failure, which the core or a module has declared. Undefined if the call succeeded. */
  readonly code?: string | undefined;
  /** Why no backend answered the call. For operators only. */
  readonly upstreamFailure?: UpstreamFailure | undefined;
}

/** Receives a report of each call, when the call has ended. */
export interface CallReporter {
  called(report: CallReport): void;
}

export interface ReportedCalls {
  readonly items: number;
  /** Number of calls that were refused or failed. */
  readonly failed: number;
  /** Code of the last call that was refused or failed. */
  readonly code: string | undefined;
  /** Distinct names in the order in which their calls ended, at most 8. */
  readonly names: readonly string[];
}
