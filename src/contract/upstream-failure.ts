/** The failure of a request to a backend: the one value that the log, the metrics and all other observers get. */

/**
 * How a request to a backend failed.
 *
 * - `refused`: no connection could be made.
 * - `connectTimeout`: no connection was made in time.
 * - `closed`: the connection ended before the answer was complete.
 * - `answerTimeout`: the answer did not begin in time.
 * - `idleTimeout`: the answer was incomplete, and nothing more arrived.
 * - `garbage`: the answer does not follow its protocol.
 * - `status`: the backend answered with a status that is a refusal or a failure.
 * - `unusable`: the answer is well-formed, but cannot be right.
 * - `tooLarge`: the answer exceeds the limit.
 * - `saturated`: too many requests waited for a connection, or this one waited for too long.
 * - `closing`: the client of the backend was closed.
 * - `internal`: a bug in the gateway or in a plugin.
 */
export type UpstreamFailureKind =
  | "refused"
  | "connectTimeout"
  | "closed"
  | "answerTimeout"
  | "idleTimeout"
  | "garbage"
  | "status"
  | "unusable"
  | "tooLarge"
  | "saturated"
  | "closing"
  | "internal";

/**
 * Why a backend did not answer. For operators only: no client of the gateway gets any of it. It contains no text of the
 * backend except `type` and `code`, which have the form of identifiers.
 */
export interface UpstreamFailure {
  readonly kind: UpstreamFailureKind;
  /** HTTP status of the backend. */
  readonly status?: number | undefined;
  /** Code of the system or of TLS, such as `ECONNREFUSED`. */
  readonly errno?: string | undefined;
  /** Host and port. */
  readonly address?: string | undefined;
  /** Name of the worker or node. */
  readonly backend?: string | undefined;
  /** The time limit that expired. */
  readonly timeoutMs?: number | undefined;
  /** Type and code of the error that the backend reported. */
  readonly type?: string | undefined;
  readonly code?: string | undefined;
}
