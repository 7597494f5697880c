/** The report of a verification: one entry per check, and the verdict. It can be sent as JSON without a conversion. */

export interface Check {
  readonly name: string;
  readonly result: "pass" | "fail" | "skipped";
  /** The reason, for people. Missing if the check passed. */
  readonly why?: string;
}

/**
 * The kind of hardware that attests the evidence, if every check passed. `simulated`: no hardware attests it. `none`: a
 * check failed.
 */
export type Assurance = "tdx" | "sev-snp" | "simulated" | "none";

export interface VerificationReport {
  /** True if hardware attests an accepted image with the expected report data. */
  readonly verified: boolean;
  readonly assurance: Assurance;
  readonly checks: readonly Check[];
  /** The type that the evidence declares. Missing if the evidence cannot be read. */
  readonly teeType?: "tdx" | "sev-snp" | "simulated";
  /** Hash of the image, computed from the quote: SHA-256 in lower-case hex. */
  readonly imageHash?: string;
  /** The 64 bytes of report data in the quote, in lower-case hex. */
  readonly reportData?: string;
  /** Registers of the quote in lower-case hex, by the vendor's names. */
  readonly measurements?: Readonly<Record<string, string>>;
  readonly tcb?: TcbVerdict;
  /** The machine: PPID (TDX) or CHIP_ID (SEV-SNP) in lower-case hex. */
  readonly platform?: string;
  /** Time at which the first certificate, revocation list or TCB info expires, in milliseconds since 1970. */
  readonly validUntil?: number;
}

export interface TcbVerdict {
  /**
   * TDX: Intel's status of the platform. SEV-SNP: the result of the comparison with the policy's minimum, or `Unknown`
   * if the policy has no minimum for the product.
   */
  readonly status: string;
  readonly advisories: readonly string[];
  /** TDX: the collateral's `tcbEvaluationDataNumber`. */
  readonly evaluation?: number;
}
