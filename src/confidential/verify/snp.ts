/** AMD SEV-SNP evidence: a report and the certificate table with VCEK, ASK and ARK. confidential-stream.md, 3.3. */
import { isZero, sameBytes, toHex } from "./binary-text.ts";
import type { Bytes } from "./binary-text.ts";
import { chainFault } from "./chain.ts";
import type { Anchors } from "./chain.ts";
import type { Certificate } from "./certificate.ts";
import { createChecklist } from "./checklist.ts";
import type { Checklist } from "./checklist.ts";
import { readRevocationList, revocationListFault } from "./crl.ts";
import { checkLists } from "./inspection.ts";
import type { Findings, Inspection } from "./inspection.ts";
import type { SnpPolicy, SnpTcb, VerificationPolicy } from "./policy.ts";
import { isEcdsa, keyKind } from "./signature.ts";
import { readCertificateTable, readVcek } from "./snp-certificates.ts";
import type { SnpCertificates, VcekFacts } from "./snp-certificates.ts";
import { guestPolicyFault, readSnpReport, readTcb, snpImageHash } from "./snp-report.ts";
import type { SnpProduct, SnpReport } from "./snp-report.ts";

export const snpChecks = [
  "quote_format",
  "certificate_table",
  "vcek_chain",
  "revocation",
  "vcek_facts",
  "report_signature",
  "chip_id",
  "tcb",
  "tcb_minimum",
  "provisional_firmware",
  "guest_policy",
  "vmpl",
  "image_hash",
  "platform",
  "report_data",
] as const;

export type SnpCheck = (typeof snpChecks)[number];
type Checks = Checklist<SnpCheck>;

/** The root of each product. */
export type SnpRoots = Readonly<Record<SnpProduct, Anchors>>;

/** SHA-256 of the DER of ARK-Milan, ARK-Genoa and ARK-Turin, as AMD's key distribution service hands them out. */
export const amdRoots: SnpRoots = {
  Milan: new Set(["69d063b45344d26a2e94e1f4210de49ef555308287d4c174445c95639a540bcd"]),
  Genoa: new Set(["4c6598d19c18719c5dfd4a7d335f674e5bfe1d8f800cea2cf270c10d103db2f1"]),
  Turin: new Set(["1f084161a44bb6d93778a904877d4819cafa5d05ef4193b2ded9dd9c73dd3f6a"]),
};

const chainLength = 3;

/**
 * `reportBytes` and `table` come from whoever is verified. `now`: milliseconds since 1970. `report_data` is left open.
 */
export async function inspectSnp(
  reportBytes: Bytes,
  table: Bytes | undefined,
  policy: VerificationPolicy,
  roots: SnpRoots,
  now: number,
): Promise<Inspection<SnpCheck>> {
  const checks = createChecklist(snpChecks);
  const report = readSnpReport(reportBytes);
  const certificates = table === undefined ? "there is none" : readCertificateTable(table);
  checks.record("quote_format", report === undefined ? "not a SEV-SNP report" : undefined);
  const isText = typeof certificates === "string";
  checks.record("certificate_table", isText ? certificates : undefined);
  if (report === undefined) return { checks, findings: {}, reportData: undefined };
  const imageHash = await snpImageHash(report);
  const platform = toHex(report.chipId);
  checkGuest(checks, report, policy.sevSnp ?? {});
  checkLists(checks, imageHash, platform, policy);
  const { reportData } = report;
  const seen: Findings = { imageHash, platform, measurements: readMeasurements(report) };
  if (isText) return { checks, findings: seen, reportData };
  const [vcek] = certificates.chain;
  const facts = vcek && readVcek(vcek);
  checks.record("vcek_facts", facts === undefined ? "the VCEK names no chip" : undefined);
  await checkChain(checks, certificates, facts?.product, roots, now);
  if (vcek === undefined || facts === undefined) return { checks, findings: seen, reportData };
  checks.record("report_signature", await signatureFault(report, vcek));
  checkFirmware(checks, report, facts, policy.sevSnp ?? {});
  const tcb = { status: minimumStatus(facts.tcb, policy.sevSnp ?? {}), advisories: [] };
  const validUntil = Math.min(...certificates.chain.map(({ notAfter }) => notAfter));
  return { checks, findings: { ...seen, tcb, validUntil }, reportData };
}

async function checkChain(
  checks: Checks,
  { chain, crl }: SnpCertificates,
  product: SnpProduct | undefined,
  roots: SnpRoots,
  now: number,
): Promise<void> {
  const anchors = product === undefined ? new Set<string>() : roots[product];
  checks.record("vcek_chain", await chainFault(chain, chainLength, anchors, now));
  if (crl === undefined) {
    checks.skip("revocation", "the evidence carries no revocation list of AMD's");
    return;
  }
  const list = readRevocationList(crl);
  const broken = await revocationListFault(list, chain.at(-1), now);
  const isRevoked = chain.slice(1).some(({ serial }) => list?.revoked.has(serial));
  checks.record("revocation", broken ?? (isRevoked ? "a certificate has been revoked" : undefined));
}

async function signatureFault(report: SnpReport, vcek: Certificate): Promise<string | undefined> {
  // VLEKs belong to a cloud provider, not to a chip: a report of theirs names no machine.
  if (report.signingKey !== 0) return "it is not signed with the chip's own key (VCEK)";
  if (report.signatureAlgorithm !== 1 || keyKind(vcek.publicKey) !== "p384") {
    return "it is not signed with ECDSA P-384";
  }
  const { signature, signedBytes } = report;
  const isSigned = await isEcdsa("p384", vcek.publicKey, signature, signedBytes);
  return isSigned ? undefined : "the VCEK did not sign it";
}

/** The certificate's word counts: AMD derived the key for this chip and this TCB; the report's copies must agree. */
function checkFirmware(
  checks: Checks,
  report: SnpReport,
  { product, tcb, hardwareId }: VcekFacts,
  policy: SnpPolicy,
): void {
  const chip = report.chipId.subarray(0, hardwareId.length);
  const isChip = sameBytes(chip, hardwareId) && isZero(report.chipId.subarray(chip.length));
  const isNamed = !report.isChipMasked && !isZero(hardwareId);
  checks.record("chip_id", isChip && isNamed ? undefined : "the VCEK is for another chip");
  const isReported = sameTcb(readTcb(product, report.reportedTcb), tcb);
  checks.record("tcb", isReported ? undefined : "the VCEK is for another TCB than the report's");
  checkMinimum(checks, tcb, policy);
  const isCommitted =
    sameBytes(report.currentTcb, report.committedTcb) &&
    sameBytes(report.currentFirmware, report.committedFirmware);
  checks.record("provisional_firmware", isCommitted ? undefined : "the firmware is not committed");
}

const tcbParts = ["fmc", "bootloader", "tee", "snp", "microcode"] as const;

function sameTcb(left: SnpTcb, right: SnpTcb): boolean {
  return tcbParts.every((part) => left[part] === right[part]);
}

/** AMD publishes no verdict on a TCB: it is what the policy's minimum makes of it. */
function minimumStatus(tcb: SnpTcb, { minTcb }: SnpPolicy): string {
  if (minTcb === undefined) return "Unknown";
  return partsBelow(tcb, minTcb).length === 0 ? "UpToDate" : "OutOfDate";
}

function partsBelow(tcb: SnpTcb, minTcb: Partial<SnpTcb>): readonly string[] {
  return tcbParts.filter((part) => tcb[part] < (minTcb[part] ?? 0));
}

function checkMinimum(checks: Checks, tcb: SnpTcb, { minTcb }: SnpPolicy): void {
  if (minTcb === undefined) return checks.skip("tcb_minimum", "the policy names no minimum");
  const below = partsBelow(tcb, minTcb);
  checks.record("tcb_minimum", below.length === 0 ? undefined : `below it: ${below.join(", ")}`);
}

function checkGuest(checks: Checks, report: SnpReport, policy: SnpPolicy): void {
  checks.record("guest_policy", guestPolicyFault(report.guestPolicy));
  const highest = policy.maxVmpl ?? 0;
  const isInside = report.vmpl <= highest;
  checks.record("vmpl", isInside ? undefined : `level ${report.vmpl} is above ${highest}`);
}

function readMeasurements(report: SnpReport): Readonly<Record<string, string>> {
  return {
    measurement: toHex(report.measurement),
    hostData: toHex(report.hostData),
    guestPolicy: report.guestPolicy.toString(16).padStart(16, "0"),
    reportedTcb: toHex(report.reportedTcb),
    launchTcb: toHex(report.launchTcb),
  };
}
