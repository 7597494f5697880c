/** The ways in which a node gives no answer, and what each one means for the call and for the node. */
import type { NodeFailure } from "../node.ts";

export interface Failure {
  /** Metric label and log field. */
  readonly cause: string;
  /** What the caller is told. */
  readonly reason: NodeFailure;
  /** Another node may do better: a read is tried there. */
  readonly elsewhere: boolean;
  /** The node is to blame: several in a row eject it. */
  readonly blame: boolean;
}

const failure = (
  cause: string,
  reason: NodeFailure,
  elsewhere: boolean,
  blame: boolean,
): Failure => ({ cause, reason, elsewhere, blame });

export const failures = {
  /** No connection could be made. */
  refused: failure("refused", "unreachable", true, true),
  connectTimeout: failure("connect_timeout", "timeout", true, true),
  /** The connection ended before the answer did. */
  closed: failure("closed", "unreachable", true, true),
  /**
   * Nothing came within `headersMs`. Not tried elsewhere: a call that one node cannot answer in time is most likely
   * expensive, and three nodes working on it would hand an attacker a factor of three.
   */
  answerTimeout: failure("answer_timeout", "timeout", false, true),
  /** The answer stopped half-way for `idleMs`. */
  idleTimeout: failure("idle_timeout", "timeout", true, true),
  /** HTTP 429 or 5xx. */
  status: failure("status", "unreachable", true, true),
  garbage: failure("garbage", "garbage", true, true),
  /** More than `answerBytes`: it would be as large from any node. */
  tooLarge: failure("too_large", "garbage", false, false),
  /** Our own bound on connections and waiting calls was reached. */
  saturated: failure("saturated", "unreachable", true, false),
  /** The pool was closed under the call. */
  closing: failure("closing", "unreachable", false, false),
} as const;
