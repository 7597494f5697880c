/** Calls of node methods. Part of the service `ledger`. */
import type { UpstreamFailure } from "sluice-gateway/plugin";

export interface LedgerMethod {
  readonly name: string;
  /** Parameters as in the specification: `["storageKey", "blockHash?"]`. */
  readonly params: readonly string[];
  readonly cuMilli: number;
}

/** `bytes`: the node's own bytes, which are borrowed. `failed`: no node answered, and nothing is charged. */
export type LedgerAnswer =
  | { readonly kind: "result"; readonly bytes: Buffer }
  | { readonly kind: "error"; readonly bytes: Buffer }
  /** `cause`: the failure of the last node that was tried, for operators only. */
  | {
      readonly kind: "failed";
      readonly reason: LedgerFailure;
      readonly cause?: UpstreamFailure | undefined;
    };

/** `disagreement`: the nodes gave different answers to a call with a quorum. */
export type LedgerFailure = "unreachable" | "timeout" | "garbage" | "aborted" | "disagreement";

export interface LedgerCalls {
  /**
   * Returns a method for the gateway's own calls, whether it is whitelisted or not: every known read, and
   * `author_submitExtrinsic`. `name` MUST NOT come from a client. Throws for any other name, which is a bug.
   */
  internal(name: string): LedgerMethod;
  /**
   * Calls a method of `methods` or `internal`. `params`: raw JSON bytes, empty if there are none. The answer may come
   * from the cache, and identical reads in flight share one call. The call is retried on another node if that is safe.
   * Synchronous if the answer is available at once. Never rejects. `signal`: aborted when the caller no longer needs
   * the answer; a shared call continues for the others. `caller`: id of a group of callers, such as a workspace; the
   * connections to a node are shared fairly among the groups.
   */
  call(
    method: LedgerMethod,
    params: Buffer,
    options?: { readonly signal?: AbortSignal; readonly caller?: string },
  ): LedgerAnswer | Promise<LedgerAnswer>;
}
