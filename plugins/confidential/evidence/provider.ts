import { fault, isFault, type Fault } from "../protocol/fault.ts";
import { reportDataBytes } from "../protocol/report-data.ts";
import { sameBytes, type Bytes } from "../verify/binary-text.ts";
import { readEvidence, type AttestationEvidence, type TeeType } from "../verify/evidence.ts";
import { readSnpReport, snpImageHash } from "../verify/snp-report.ts";
import { readTdxQuote, tdxImageHash } from "../verify/tdx-quote.ts";

export interface EvidenceProvider {
  readonly teeType: TeeType;
  /** For a simulation: the test root, DER in base64. */
  readonly root?: string;
  /**
   * True if the provider adds the data that verifiers need in addition to the quote: Intel's collateral or AMD's
   * revocation list. If evidence of such a provider lacks this data, it could not be fetched.
   */
  readonly staples?: boolean;
  /**
   * `reportData`: 64 bytes. A fault has the code ATTESTATION_UNAVAILABLE, and its message contains neither a path nor a
   * text of the platform.
   */
  quote(reportData: Uint8Array, signal: AbortSignal): Promise<AttestationEvidence | Fault>;
}

export function unavailable(why: string): Fault {
  return fault("ATTESTATION_UNAVAILABLE", why);
}

/** Resolves when the signal aborts. */
export function whenAborted(signal: AbortSignal): Promise<undefined> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve(undefined);
    else signal.addEventListener("abort", () => resolve(undefined), { once: true });
  });
}

export interface EvidenceContent {
  readonly reportData: Bytes;
  readonly imageHash: string;
}

/** Reads evidence without verifying it. Undefined if it cannot be read. */
export async function readContent(
  evidence: AttestationEvidence,
): Promise<EvidenceContent | undefined> {
  const read = readEvidence(evidence);
  if (typeof read === "string") return undefined;
  if (read.teeType === "sev-snp") {
    const report = readSnpReport(read.quote);
    return report && { reportData: report.reportData, imageHash: await snpImageHash(report) };
  }
  const body = readTdxQuote(read.quote)?.body;
  return body && { reportData: body.reportData, imageHash: await tdxImageHash(body) };
}

export async function bindsReportData(
  evidence: AttestationEvidence | Fault,
  reportData: Uint8Array,
): Promise<boolean> {
  if (isFault(evidence) || reportData.length !== reportDataBytes) return false;
  const content = await readContent(evidence);
  return content !== undefined && sameBytes(content.reportData, reportData);
}
