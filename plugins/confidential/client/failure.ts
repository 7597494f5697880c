/** How the client says that it refused or lost something. */
import type { Fault, StreamCode } from "../protocol/fault.ts";
import { closeCodes, plainCloseCodes } from "../protocol/fault.ts";
import type { Check, VerificationReport } from "../verify/report.ts";

/** The protocol's codes, and what only a client can say. */
export type ConfidentialCode =
  | StreamCode
  /** No connection, or the gateway refused the upgrade (a wrong key or ticket among the reasons). */
  | "CONNECTION_FAILED"
  /** The connection ended without a reason that the protocol knows. */
  | "CONNECTION_CLOSED"
  /** The policy document is missing, not the pinned key's, expired, rolled back or against the session asked for. */
  | "POLICY_REFUSED"
  /** The evidence does not pass the policy; `checks` says where. */
  | "EVIDENCE_REFUSED"
  /** The answer was cut off before its end. */
  | "TRUNCATED"
  /** The enclave ended the request with an error; the message is its own. */
  | "REQUEST_FAILED";

interface FailureDetails {
  readonly checks?: readonly Check[];
  readonly evidence?: VerificationReport;
}

/**
 * Why there is no session, or none any more. `checks`: of the handshake, one line each, when it failed there. Nothing
 * has been sent in the clear, and nothing is tried again.
 */
export class ConfidentialError extends Error {
  override readonly name = "ConfidentialError";
  readonly code: ConfidentialCode;
  readonly checks: readonly Check[] | undefined;
  /** As far as it came, when evidence was looked at. */
  readonly evidence: VerificationReport | undefined;

  constructor(code: ConfidentialCode, message: string, details: FailureDetails = {}) {
    super(message);
    this.code = code;
    this.checks = details.checks;
    this.evidence = details.evidence;
  }
}

export function failureOf({ code, message }: Fault): ConfidentialError {
  return new ConfidentialError(code, message);
}

/** Of an `error` frame: whoever holds the line may have written it, so only its code is told. */
export function toldFailure(code: StreamCode | undefined): ConfidentialError {
  return code === undefined
    ? new ConfidentialError("CONNECTION_CLOSED", "the gateway ended the session with an error")
    : new ConfidentialError(code, `the gateway ended the session: ${code}`);
}

/** Of a connection that ended without an `error` frame. */
export function closedFailure(closeCode: number): ConfidentialError {
  const codes = (Object.keys(closeCodes) as StreamCode[]).filter(
    (code) => closeCodes[code] === closeCode && closeCode >= 4000,
  );
  const [only, another] = codes;
  const message = `the connection was closed (${closeCode})`;
  const isPlain = only === undefined || another !== undefined;
  return new ConfidentialError(isPlain ? "CONNECTION_CLOSED" : only, message);
}

/** What the connection is closed with. */
export function closeCodeOf(code: ConfidentialCode): number {
  return Object.hasOwn(closeCodes, code) ? closeCodes[code as StreamCode] : plainCloseCodes.ok;
}
