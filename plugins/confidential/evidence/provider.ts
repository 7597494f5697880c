/**
 * Who makes attestation evidence: one interface for the quotes of keysets and for those that callers ask for. The
 * platform behind it is Intel TDX, AMD SEV-SNP, dstack's agent, or a simulation.
 */
import { isFault } from "../protocol/fault.ts";
import type { Fault } from "../protocol/fault.ts";
import { reportDataBytes } from "../protocol/statement.ts";
import { sameBytes } from "../verify/binary-text.ts";
import type { Bytes } from "../verify/binary-text.ts";
import { readEvidence } from "../verify/evidence.ts";
import type { AttestationEvidence, TeeType } from "../verify/evidence.ts";
import { readSnpReport, snpImageHash } from "../verify/snp-report.ts";
import { readTdxQuote, tdxImageHash } from "../verify/tdx-quote.ts";

export interface EvidenceProvider {
  readonly teeType: TeeType;
  /** No hardware vouches for what it makes. */
  readonly simulated: boolean;
  /** Of a simulation: the test root, DER in base64. */
  readonly root?: string;
  /**
   * Its evidence includes what verifiers need beside the quote: Intel's collateral or AMD's revocation list. Evidence
   * without it means that it could not be fetched.
   */
  readonly staples?: boolean;
  /**
   * Evidence that carries these 64 bytes, as it travels in the frame `attestation`. A fault is
   * ATTESTATION_UNAVAILABLE; it names no path and no text of the platform's.
   */
  quote(reportData: Uint8Array, signal: AbortSignal): Promise<AttestationEvidence | Fault>;
}

/** Resolves when nobody waits any more: not every platform can be told to give up. */
export function aborted(signal: AbortSignal): Promise<undefined> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve(undefined);
    else signal.addEventListener("abort", () => resolve(undefined), { once: true });
  });
}

/** What evidence says of itself; it has not been verified. */
export interface EvidenceContent {
  readonly reportData: Bytes;
  /** Lower-case hex of SHA-256. */
  readonly imageHash: string;
}

/** Reads a quote again, as whoever gets it will. Undefined when it cannot be read. */
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

/** Whether a provider made what it was asked for: a quote that carries these 64 bytes. */
export async function carries(
  evidence: AttestationEvidence | Fault,
  reportData: Uint8Array,
): Promise<boolean> {
  if (isFault(evidence) || reportData.length !== reportDataBytes) return false;
  const content = await readContent(evidence);
  return content !== undefined && sameBytes(content.reportData, reportData);
}
