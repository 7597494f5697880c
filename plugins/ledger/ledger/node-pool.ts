/**
 * The calls of the ledger to its nodes, and what is known of the nodes (types only).
 *
 * The outcome is reported to methods of the request object, which avoids a promise and a closure per call. Params are
 * text, so that a call of usual size costs one string concatenation and one write.
 */
import type { Absence, Backend, Http1Carrier } from "sluice-gateway/internal/http";
import type { Clock, Log, Metrics, UpstreamFailure } from "sluice-gateway/plugin";
import type { LedgerFailure } from "sluice-gateway/services";
import type { PoolConfig } from "./options.ts";

export type NodeFailure = LedgerFailure;

export type AnswerKind = "result" | "error";

export interface BlockOfCall {
  /** In lower case, with 0x. Undefined if the call names a number. */
  readonly hash: string | undefined;
  readonly number: number | undefined;
  /** True if the call reads the state at the block, which some nodes discard after a time. */
  readonly needsState: boolean;
}

export type CallCarrier = Pick<Http1Carrier, "hasSent" | "abort">;

/** One call. Exactly one of `onAnswer` and `onError` is called, once, and never before `send` has returned. */
export interface NodeRequest {
  /** The node's name, which needs no escaping, because it is never taken from a client's bytes. */
  readonly method: string;
  /**
   * The params as JSON text (an array or object), sent as UTF-8. If empty, the pool sends `[]`. Usually ASCII, for
   * which latin1 produces the same bytes faster.
   */
  readonly params: string;
  /** True if the call may be sent again, to the same or another node, after a failure. */
  readonly retry: boolean;
  /** True if the call costs the node almost nothing, so that it may be part of an upstream batch. */
  readonly cheap: boolean;
  /**
   * The group of callers that the call is sent for, if it is known. The connections to a node are shared among groups;
   * a call that several groups wait for counts for the first one.
   */
  readonly caller?: string | undefined;
  /** The block that the call names, if any. The pool reads it only if it has several nodes. */
  readonly block?: BlockOfCall | undefined;
  /** Number of nodes that must give the same answer (default 1). */
  readonly quorum?: number | undefined;
  /** Called before each attempt, with its node. Not called for finalized heads and with a quorum. */
  onAttempt?(node: Pick<Backend, "isEjected">): void;
  /**
   * Called when the call is queued for a connection or gets one, and with undefined when it has left it. It may be
   * aborted as long as it was not sent completely; the request is not called any more then. Not called for calls in a
   * batch; a WebSocket that is open has received the call.
   */
  onCarrier?(carrier: CallCarrier | undefined): void;
  /**
   * Called with the node's `result` or `error`: `bytes[start, end)` is a whole JSON value. The bytes are borrowed: the
   * pool may overwrite them as soon as this method returns.
   */
  onAnswer(kind: AnswerKind, bytes: Buffer, start: number, end: number): void;
  /** Called if no node answered. `cause`: the failure of the last node that was tried, if there was one. */
  onError(reason: NodeFailure, cause?: UpstreamFailure): void;
}

export interface NodeStatus {
  readonly node: string;
  readonly exclusionReason: string | undefined;
  /** An error such as `ECONNREFUSED`. Undefined if the last probe succeeded. */
  readonly probeFailure?: string | undefined;
  readonly absence?: Absence | undefined;
  /** Block numbers that the node reported last. */
  readonly best: number | undefined;
  readonly finalized: number | undefined;
  /** Number of the oldest block whose state the node has. Undefined if it is not known. */
  readonly oldestState: number | undefined;
}

/** A node to which subscriptions may be opened. */
export interface NodeTarget {
  readonly label: string;
  readonly url: URL;
  /** The heads at the last probe. Undefined if the node is not usable, or was not probed. */
  readonly head?: NodeHead | undefined;
}

/** Members are undefined if the node did not report them. */
export interface NodeHead {
  readonly best: number;
  readonly bestHash: string | undefined;
  readonly finalized: number | undefined;
}

/** `hash`: in lower case. */
export interface FinalizedBlock {
  readonly number: number;
  readonly hash: string;
}

/** Dependencies of the nodes. */
export interface NodesDeps {
  readonly upstream: PoolConfig;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
}
