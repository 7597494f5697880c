import { closeCodes, plainCloseCodes, type Fault, type StreamCode } from "../protocol/fault.ts";
import type { Check, VerificationReport } from "../verify/report.ts";

/** The codes of the protocol, and those that only a client reports. */
export type ConfidentialCode =
  | StreamCode
  /** The connection could not be opened, or the gateway refused the upgrade, for example because of a wrong key. */
  | "CONNECTION_FAILED"
  /** The connection closed without a reason that the protocol defines. */
  | "CONNECTION_CLOSED"
  /**
   * The policy document is missing, is not signed by the pinned key, has expired, is older than one seen before, or
   * does not allow the requested session.
   */
  | "POLICY_REFUSED"
  /** The evidence does not satisfy the policy. `checks` lists the checks that failed. */
  | "EVIDENCE_REFUSED"
  /** The answer was cut off before its end. */
  | "TRUNCATED"
  /** The enclave ended the request with an error. The message is the enclave's. */
  | "REQUEST_FAILED";

interface FailureDetails {
  readonly checks?: readonly Check[];
  readonly evidence?: VerificationReport;
  readonly retryAfterSeconds?: number | undefined;
}

/** The reason why a session could not be opened or has ended. Nothing was sent unencrypted, and nothing is retried. */
export class ConfidentialError extends Error {
  override readonly name = "ConfidentialError";
  readonly code: ConfidentialCode;
  /** The checks of the handshake, if it failed there. */
  readonly checks: readonly Check[] | undefined;
  /** The result of the verification of the evidence, up to the failure. Undefined if no evidence was verified. */
  readonly evidence: VerificationReport | undefined;
  /** The wait that the gateway asks for, if it has refused the connection. Undefined with the global WebSocket. */
  readonly retryAfterSeconds: number | undefined;

  constructor(code: ConfidentialCode, message: string, details: FailureDetails = {}) {
    super(message);
    this.code = code;
    this.checks = details.checks;
    this.evidence = details.evidence;
    this.retryAfterSeconds = details.retryAfterSeconds;
  }
}

export function failureOfFault({ code, message }: Fault): ConfidentialError {
  return new ConfidentialError(code, message);
}

/**
 * The frame is not authenticated: anyone on the path may have written it. Therefore only its code is used, not its
 * text.
 */
export function failureOfErrorFrame(code: StreamCode | undefined): ConfidentialError {
  return code === undefined
    ? new ConfidentialError("CONNECTION_CLOSED", "the gateway ended the session with an error")
    : new ConfidentialError(code, `the gateway ended the session: ${code}`);
}

export function failureOfClose(closeCode: number): ConfidentialError {
  const codes = (Object.keys(closeCodes) as StreamCode[]).filter(
    (code) => closeCodes[code] === closeCode && closeCode >= 4000,
  );
  const [only, another] = codes;
  const message = `the connection was closed (${closeCode})`;
  const isPlain = only === undefined || another !== undefined;
  return new ConfidentialError(isPlain ? "CONNECTION_CLOSED" : only, message);
}

export function closeCodeOf(code: ConfidentialCode): number {
  return Object.hasOwn(closeCodes, code) ? closeCodes[code as StreamCode] : plainCloseCodes.ok;
}
