import type { UpstreamFailure } from "sluice-gateway/plugin";
import type { NodeFailure } from "../node-pool.ts";

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
