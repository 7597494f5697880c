/** Verifies attestation evidence. This folder runs in Node and browsers, and fetches nothing. */
import { sameBytes, toHex } from "./binary-text.ts";
import { createChecklist } from "./checklist.ts";
import { readEvidence, type ParsedEvidence } from "./evidence.ts";
import type { Inspection } from "./inspection.ts";
import type { VerificationPolicy } from "./policy.ts";
import type { VerificationReport } from "./report.ts";
import { isMarked, simulatedAnchors } from "./simulation.ts";
import { amdRoots, inspectSnp, type SnpRoots } from "./snp.ts";
import { inspectTdx, intelRoots } from "./tdx.ts";

export interface ExpectedEvidence {
  /** The 64 bytes that the quote must contain (confidential-stream.md, 1.4). */
  readonly reportData: Uint8Array;
}

/** Only tests use roots other than those of the hardware vendors. */
export interface HardwareRoots {
  readonly tdx: typeof intelRoots;
  readonly snp: SnpRoots;
}

const vendorRoots: HardwareRoots = { tdx: intelRoots, snp: amdRoots };

/**
 * `evidence`: parsed JSON from the party that is verified, which is not trusted. `now`: milliseconds since 1970. Never
 * throws because of the content of `evidence`: anything invalid is a failed check, and `assurance` is then `none`.
 */
export async function verifyEvidence(
  evidence: unknown,
  expected: ExpectedEvidence,
  policy: VerificationPolicy,
  now: number,
  roots: HardwareRoots = vendorRoots,
): Promise<VerificationReport> {
  const checks = createChecklist(["evidence", "not_simulated"]);
  const read = readEvidence(evidence);
  if (!checks.record("evidence", typeof read === "string" ? read : undefined)) {
    return { verified: false, assurance: "none", checks: checks.list() };
  }
  // The function has already returned if `read` is a text.
  const given = read as ParsedEvidence;
  const { teeType } = given;
  const inspection = await inspect(given, policy, roots, now);
  if (typeof inspection === "string") {
    checks.record("not_simulated", inspection);
    return { verified: false, assurance: "none", teeType, checks: checks.list() };
  }
  const fault = reportDataFault(inspection, expected);
  inspection.checks.record("report_data", fault);
  const isHardware = teeType !== "simulated";
  const lacksMarker = !isHardware && !(await isMarked(inspection.findings.measurements?.["rtmr3"]));
  const isAccepted = inspection.checks.hasPassed() && !lacksMarker;
  if (isHardware) checks.record("not_simulated", undefined);
  else if (lacksMarker)
    checks.record("not_simulated", "the evidence is simulated but lacks the marker of simulations");
  else if (policy.treatSimulatedAsVerified === true)
    checks.skip("not_simulated", "the evidence is simulated, and the caller accepts that");
  else checks.record("not_simulated", "the evidence is simulated: no hardware attests it");
  const { reportData, findings } = inspection;
  return {
    verified: isAccepted && checks.hasPassed(),
    assurance: isAccepted ? teeType : "none",
    checks: [...checks.list(), ...inspection.checks.list()],
    teeType,
    ...findings,
    ...(reportData && { reportData: toHex(reportData) }),
  };
}

async function inspect(
  { teeType, quote, aux, collateral }: ParsedEvidence,
  policy: VerificationPolicy,
  roots: HardwareRoots,
  now: number,
): Promise<Inspection<"report_data"> | string> {
  if (teeType === "sev-snp") return inspectSnp(quote, aux, policy, roots.snp, now);
  if (teeType === "tdx") return inspectTdx(quote, collateral, policy, roots.tdx, now);
  const anchors = await simulatedAnchors(policy);
  return typeof anchors === "string"
    ? anchors
    : inspectTdx(quote, collateral, policy, anchors, now);
}

function reportDataFault(
  { reportData }: Inspection<"report_data">,
  expected: ExpectedEvidence,
): string | undefined {
  if (reportData === undefined) return "the report data is missing";
  if (expected.reportData.length !== 64)
    return `expected report data of 64 bytes, got ${expected.reportData.length}`;
  return sameBytes(reportData, expected.reportData)
    ? undefined
    : "the report data differs from the expected data";
}
