/** What a verification says: one line for each check, and the conclusion. It can be sent as JSON as it is. */

export interface Check {
  readonly name: string;
  readonly result: "pass" | "fail" | "skipped";
  /** For whoever reads the report; absent when it passed. */
  readonly why?: string;
}

/** Who vouches for the evidence when every check holds; `none` when one does not. */
export type Assurance = "tdx" | "sev-snp" | "simulated" | "none";

export interface VerificationReport {
  /** Hardware vouches for an accepted image that bound the expected report data. */
  readonly verified: boolean;
  readonly assurance: Assurance;
  readonly checks: readonly Check[];
  /** What the evidence says of itself; absent when that cannot be read. */
  readonly teeType?: "tdx" | "sev-snp" | "simulated";
  /** Lower-case hex of SHA-256, computed from the quote. */
  readonly imageHash?: string;
  /** Lower-case hex of the 64 bytes in the quote. */
  readonly reportData?: string;
  /** Registers of the quote in lower-case hex, by the vendor's names. */
  readonly measurements?: Readonly<Record<string, string>>;
  readonly tcb?: TcbVerdict;
  /** Lower-case hex of the PPID or CHIP_ID. */
  readonly platform?: string;
  /** Milliseconds since 1970: when the first certificate, list or TCB info lapses. */
  readonly validUntil?: number;
}

/**
 * `status`: Intel's word for the platform; for SEV-SNP what the policy's minimum makes of it, `Unknown` without one.
 */
export interface TcbVerdict {
  readonly status: string;
  readonly advisories: readonly string[];
  /** TDX: the collateral's `tcbEvaluationDataNumber`. */
  readonly evaluation?: number;
}
