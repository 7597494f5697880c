/**
 * What the ledger asks of its nodes: types only. `pool/` implements `NodePool`; tests script it.
 *
 * The request is the object that is called back (no promise, no closure a call), and its params are text: a call of
 * usual size then costs one string concatenation and one write.
 */

/** Why no node answered; the reasons of `LedgerAnswer`. */
export type NodeFailure = "unreachable" | "timeout" | "garbage" | "aborted";

/** One call. Exactly one of `answered` and `failed` is called, once, and never before `send` has returned. */
export interface NodeRequest {
  /** The node's own name for it, never from a client's bytes: needs no escaping. */
  readonly method: string;
  /**
   * The params as JSON text (an array or object), to be sent as UTF-8; empty: none, and the pool sends `[]`.
   * Usually ASCII, and then latin1 writes the same bytes faster.
   */
  readonly params: string;
  /** True: may be sent to another node, or again, after a failure. */
  readonly retry: boolean;
  /** True: costs the node next to nothing, so it may ride with others in one upstream batch. */
  readonly cheap: boolean;
  /**
   * The node's `result` or `error` is `bytes[start, end)`, a whole JSON value. The bytes are borrowed: the pool may
   * write over them as soon as this returns.
   */
  answered(kind: "result" | "error", bytes: Buffer, start: number, end: number): void;
  /** No node gave an answer. */
  failed(reason: NodeFailure): void;
}

/** A node as an operator sees it. */
export interface NodeStatus {
  /** Host and port. */
  readonly node: string;
  /** Why it is left out; undefined: it is usable. */
  readonly complaint: string | undefined;
  /** Block numbers it said last. */
  readonly best: number | undefined;
  readonly finalized: number | undefined;
  readonly inFlight: number;
}

/** A pool of nodes; a single scripted one in tests. */
export interface NodePool {
  /**
   * Sends one call. Never throws. There is no way to take it back: it ends by its answer or by the pool's time limits.
   */
  send(request: NodeRequest): void;
  /**
   * Number of the highest finalized block that every usable node has; undefined while no node is usable: one that is
   * asked all the same may not have it.
   */
  readonly finalized: number | undefined;
  /** Number of the best block known; undefined before the first probe. */
  readonly best: number | undefined;
  /**
   * Increases when what the nodes are has changed: genesis, software version or runtime version; also when their
   * genesis is first known. Every cache is emptied then. A node that comes, goes or lags does not change it.
   */
  readonly epoch: number;
  /** True while at least one node is usable. */
  readonly ready: boolean;
  /** Resolves when every node has been probed once, well or not; never rejects. */
  readonly firstProbe: Promise<void>;
  /** Absent: nothing is known of single nodes. */
  status?(): readonly NodeStatus[];
  close(): Promise<void>;
}
