/** AMD SEV-SNP evidence: a report, and the certificate table with VCEK, ASK and ARK (confidential-stream.md, 3.3). */
import { isZero, sameBytes, toHex, type Bytes } from "./binary-text.ts";
import { chainFault, type TrustAnchors } from "./chain.ts";
import type { Certificate } from "./certificate.ts";
import { createChecklist, type Checklist } from "./checklist.ts";
import { readRevocationList, revocationListFault } from "./crl.ts";
import { checkAllowLists, type Findings, type Inspection } from "./inspection.ts";
import { snpTcbParts } from "./policy.ts";
import type { SnpPolicy, SnpProduct, SnpTcb, VerificationPolicy } from "./policy.ts";
import { isEcdsa, keyKind } from "./signature.ts";
import { readCertificateTable, readVcek } from "./snp-certificates.ts";
import type { SnpCertificates, VcekFacts } from "./snp-certificates.ts";
import { guestPolicyFault, readSnpReport, readTcb, snpImageHash } from "./snp-report.ts";
import type { SnpReport } from "./snp-report.ts";

const snpChecks = [
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

export type SnpRoots = Readonly<Record<SnpProduct, TrustAnchors>>;

/** SHA-256 of the DER of ARK-Milan, ARK-Genoa and ARK-Turin, as served by AMD's key distribution service. */
export const amdRoots: SnpRoots = {
  Milan: new Set(["69d063b45344d26a2e94e1f4210de49ef555308287d4c174445c95639a540bcd"]),
  Genoa: new Set(["4c6598d19c18719c5dfd4a7d335f674e5bfe1d8f800cea2cf270c10d103db2f1"]),
  Turin: new Set(["1f084161a44bb6d93778a904877d4819cafa5d05ef4193b2ded9dd9c73dd3f6a"]),
};

const chainLength = 3;

/**
 * Checks everything except `report_data`, which the caller checks. `reportBytes`, `table`: bytes from the party that is
 * verified, which is not trusted. `now`: milliseconds since 1970.
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
  const certificates =
    table === undefined ? "the certificate table is missing" : readCertificateTable(table);
  checks.record(
    "quote_format",
    report === undefined ? "the quote is not a SEV-SNP report" : undefined,
  );
  const isText = typeof certificates === "string";
  checks.record("certificate_table", isText ? certificates : undefined);
  if (report === undefined) return { checks, findings: {}, reportData: undefined };
  const imageHash = await snpImageHash(report);
  const platform = toHex(report.chipId);
  checkGuest(checks, report, policy.sevSnp ?? {});
  checkAllowLists(checks, imageHash, platform, policy);
  const { reportData } = report;
  const seen: Findings = { imageHash, platform, measurements: readMeasurements(report) };
  if (isText) return { checks, findings: seen, reportData };
  const [vcek] = certificates.chain;
  const facts = vcek && readVcek(vcek);
  checks.record(
    "vcek_facts",
    facts === undefined ? "the VCEK certificate does not identify a chip" : undefined,
  );
  const listUntil = await checkChain(checks, certificates, facts?.product, roots, policy, now);
  if (vcek === undefined || facts === undefined) return { checks, findings: seen, reportData };
  checks.record("report_signature", await signatureFault(report, vcek));
  checkFirmware(checks, report, facts, policy.sevSnp ?? {});
  const tcb = { status: minimumStatus(facts, policy.sevSnp ?? {}), advisories: [] };
  const ends = certificates.chain.map(({ notAfter }) => notAfter);
  const validUntil = Math.min(...ends, listUntil ?? Infinity);
  return { checks, findings: { ...seen, tcb, validUntil }, reportData };
}

/** Returns the time at which the revocation list expires, in milliseconds since 1970. Undefined if there is no list. */
async function checkChain(
  checks: Checks,
  { chain, crl }: SnpCertificates,
  product: SnpProduct | undefined,
  roots: SnpRoots,
  { sevSnp }: VerificationPolicy,
  now: number,
): Promise<number | undefined> {
  const anchors = product === undefined ? new Set<string>() : roots[product];
  checks.record("vcek_chain", await chainFault(chain, chainLength, anchors, now));
  if (crl === undefined) {
    // The party that is verified composes the evidence. A list that it omits must not count as a passed check.
    const without = "the evidence does not contain AMD's revocation list";
    if (sevSnp?.requireCrl === false) {
      checks.skip("revocation", `${without}, and the policy does not require one`);
    } else checks.record("revocation", without);
    return undefined;
  }
  const list = readRevocationList(crl);
  const listFault = await revocationListFault(list, chain.at(-1), now);
  const isRevoked = chain.slice(1).some(({ serial }) => list?.revoked.has(serial));
  checks.record(
    "revocation",
    listFault ?? (isRevoked ? "a certificate has been revoked" : undefined),
  );
  return list?.nextUpdate;
}

async function signatureFault(report: SnpReport, vcek: Certificate): Promise<string | undefined> {
  // A VLEK belongs to a cloud provider, not to a chip, so a report with its signature does not identify a machine.
  if (report.signingKey !== 0) return "the report is not signed with the chip's own key (VCEK)";
  if (report.signatureAlgorithm !== 1 || keyKind(vcek.publicKey) !== "p384") {
    return "the report is not signed with ECDSA P-384";
  }
  const { signature, signedBytes } = report;
  const isSigned = await isEcdsa("p384", vcek.publicKey, signature, signedBytes);
  return isSigned ? undefined : "the report is not signed by the VCEK";
}

/**
 * The certificate is authoritative, because AMD derived the key for this chip and this TCB. The report must have the
 * same values.
 */
function checkFirmware(
  checks: Checks,
  report: SnpReport,
  facts: VcekFacts,
  policy: SnpPolicy,
): void {
  const { product, tcb, hardwareId } = facts;
  const chip = report.chipId.subarray(0, hardwareId.length);
  const isChip = sameBytes(chip, hardwareId) && isZero(report.chipId.subarray(chip.length));
  const isNamed = !report.isChipMasked && !isZero(hardwareId);
  checks.record("chip_id", isChip && isNamed ? undefined : "the VCEK is for another chip");
  const isReported = sameTcb(readTcb(product, report.reportedTcb), tcb);
  checks.record("tcb", isReported ? undefined : "the VCEK is for another TCB than the report");
  checkMinimum(checks, facts, policy);
  const isCommitted =
    sameBytes(report.currentTcb, report.committedTcb) &&
    sameBytes(report.currentFirmware, report.committedFirmware);
  checks.record(
    "provisional_firmware",
    isCommitted ? undefined : "the firmware is provisional, not committed",
  );
}

function sameTcb(left: SnpTcb, right: SnpTcb): boolean {
  return snpTcbParts.every((part) => left[part] === right[part]);
}

/** AMD does not publish a status, so it is the result of the comparison with the policy's minimum. */
function minimumStatus(facts: VcekFacts, { minTcb }: SnpPolicy): string {
  const minimum = minTcb === "any" ? undefined : minTcb?.[facts.product];
  if (minimum === undefined) return "Unknown";
  return partsBelow(facts.tcb, minimum).length === 0 ? "UpToDate" : "OutOfDate";
}

function partsBelow(tcb: SnpTcb, minimum: Partial<SnpTcb>): readonly (keyof SnpTcb)[] {
  return snpTcbParts.filter((part) => tcb[part] < (minimum[part] ?? 0));
}

function checkMinimum(checks: Checks, { product, tcb }: VcekFacts, { minTcb }: SnpPolicy): void {
  if (minTcb === "any") return checks.skip("tcb_minimum", "the policy accepts any TCB");
  const minimum = minTcb?.[product];
  if (minimum === undefined) {
    checks.record("tcb_minimum", `the policy has no minimum TCB for ${product}`);
    return;
  }
  const below = partsBelow(tcb, minimum);
  const listed = below.map((part) => `${part} ${tcb[part]}`).join(", ");
  checks.record(
    "tcb_minimum",
    below.length === 0 ? undefined : `the TCB is below the minimum: ${listed}`,
  );
}

function checkGuest(checks: Checks, report: SnpReport, policy: SnpPolicy): void {
  checks.record("guest_policy", guestPolicyFault(report.guestPolicy));
  const highest = policy.maxVmpl ?? 0;
  const isInside = report.vmpl <= highest;
  checks.record(
    "vmpl",
    isInside ? undefined : `VMPL ${report.vmpl} is above the maximum ${highest}`,
  );
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
