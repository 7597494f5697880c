/** The caller of a call to the nodes. */
import type { Body } from "./body.ts";
import type { NodeFailure } from "./node-pool.ts";

/**
 * Receives the outcome of a call. Exactly one of the two methods is called, once, and never before `Calls.ask` has
 * returned. They must not throw.
 */
export interface Waiter {
  /** A Buffer in `body` is borrowed: copy what outlives the call. */
  onAnswer(kind: "result" | "error", body: Body): void;
  onError(reason: NodeFailure): void;
}

/** A call in flight that further callers may join. */
export interface JoinableCall {
  join(waiter: Waiter): void;
}
