import type { UpstreamFailure } from "sluice-gateway/plugin";
import type { JsonBody } from "./json-body.ts";
import type { NodeFailure } from "./node-pool.ts";

/**
 * Receives the outcome of a call. Exactly one of the two methods is called, once, and never before `CallDispatcher.call` has
 * returned. They must not throw.
 */
export interface CallListener {
  /** Id of the group of callers. Undefined if it is not known. See `NodeRequest.caller`. */
  readonly caller?: string | undefined;
  /** The call that the listener waits for. Set by the dispatcher. */
  waitsFor?: JoinableCall | undefined;
  /** A Buffer in `body` is borrowed: copy what outlives the call. */
  onAnswer(kind: "result" | "error", body: JsonBody): void;
  onError(reason: NodeFailure, cause?: UpstreamFailure): void;
}

/** A call in flight that further callers may join. */
export interface JoinableCall {
  /** True if it waits for a node that the pool has ejected, which may never answer. */
  readonly isStuck: boolean;
  join(listener: CallListener): void;
  /**
   * Called at most once by each listener, when it does not need the answer any more. After all listeners have called
   * it, the call keeps no long params. A call that no node has received completely ends with `aborted`; any other one
   * continues, because the node works on it.
   */
  release(): void;
}
