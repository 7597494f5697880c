/**
 * The interface between the ledger and its nodes (types only). `pool/` implements `NodePool`.
 *
 * The outcome is reported to methods of the request object, which avoids a promise and a closure per call. Params are
 * text, so that a call of usual size costs one string concatenation and one write.
 */
import type { Absence, Http1Carrier } from "sluice-gateway/internal/http";
import type { UpstreamFailure } from "sluice-gateway/plugin";
import type { LedgerFailure, LedgerNode } from "sluice-gateway/services";

export type NodeFailure = LedgerFailure;

export interface BlockOfCall {
  /** In lower case, with 0x. Undefined if the call names a number. */
  readonly hash: string | undefined;
  readonly number: number | undefined;
  /** True if the call reads the state at the block, which some nodes discard after a time. */
  readonly needsState: boolean;
}

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
  /**
   * Called when the call is queued for a connection or gets one, and with undefined when it has left it. It may be
   * aborted as long as it was not sent completely; the request is not called any more then. Not called for calls over
   * WebSocket or in a batch.
   */
  onCarrier?(carrier: Http1Carrier | undefined): void;
  /**
   * Called with the node's `result` or `error`: `bytes[start, end)` is a whole JSON value. The bytes are borrowed: the
   * pool may overwrite them as soon as this method returns.
   */
  onAnswer(kind: "result" | "error", bytes: Buffer, start: number, end: number): void;
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

/** The node that supplies heads, subscriptions and follows. The pool may choose another one. */
export interface ReferenceNode {
  /** Undefined while the pool is choosing. */
  readonly target: NodeTarget | undefined;
  /**
   * Number of the highest finalized block that clients may know, 0 if there is none. Undefined if the pool has a single
   * node, which cannot disagree.
   */
  readonly floor: number | undefined;
  /** Resolves to true as soon as there is a reference, or to false after two seconds. Never rejects. */
  ready(): Promise<boolean>;
  /**
   * Called when a node has announced its finalized head, before clients are notified of it. Ignored unless the node is
   * the reference. `node`: label. `known`: a finalized block whose hash is known: this one, or its parent.
   */
  announced(node: string, number: number, known?: FinalizedBlock): void;
  /** Called when the node with this label has broken a connection or a rule. The pool then chooses another one. */
  lose(node: string): void;
  onChange(listener: () => void): Disposable;
}

export interface NodePool {
  /** Sends one call. Never throws. The call ends with its answer or at the pool's time limits: see also `onCarrier`. */
  send(request: NodeRequest): void;
  /**
   * Number of the highest finalized block that every usable node has. Undefined while no node is usable, because a node
   * that is asked anyway may not have it.
   */
  readonly finalized: number | undefined;
  /** Undefined before the first probe. */
  readonly best: number | undefined;
  /**
   * Increases when the genesis, software version or runtime version of the nodes changes, when their genesis is first
   * known, and when an answer of a node is proved to be wrong. Every cache is emptied then. It does not change when a node
   * is added, removed or lags.
   */
  readonly epoch: number;
  /**
   * Increases when the chain of the nodes changes or starts again, but not with their software or runtime. 0 while the
   * chain is not known.
   */
  readonly chain: number;
  readonly ready: boolean;
  /** Resolves when the first probe of every node has succeeded or failed. Never rejects. */
  readonly firstProbe: Promise<void>;
  status(): readonly NodeStatus[];
  /**
   * Returns the nodes for subscriptions, the best first: the usable ones, or, while none is usable, those that are
   * tried as a last resort. `block`: nodes that have it are first.
   */
  targets(block?: BlockOfCall): readonly NodeTarget[];
  readonly reference: ReferenceNode;
  readonly nodes: readonly LedgerNode[];
  close(): Promise<void>;
}
