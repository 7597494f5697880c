/**
 * Intel TDX evidence: a quote, the chain inside it and Intel's collateral. Signatures, chains and revocation lists are
 * verified here; @phala/dcap-qvl gives a second opinion and the platform's TCB status. confidential-stream.md, 3.5.
 */
import { isZero, joinBytes, sameBytes, toHex } from "./binary-text.ts";
import type { Bytes } from "./binary-text.ts";
import { chainFault } from "./chain.ts";
import type { Anchors } from "./chain.ts";
import type { Certificate } from "./certificate.ts";
import { createChecklist } from "./checklist.ts";
import type { Checklist } from "./checklist.ts";
import { revocationListFault } from "./crl.ts";
import { askDcap } from "./dcap.ts";
import type { DcapVerdict } from "./dcap.ts";
import { checkLists } from "./inspection.ts";
import type { Findings, Inspection } from "./inspection.ts";
import { readPckPlatform } from "./pck.ts";
import type { VerificationPolicy } from "./policy.ts";
import { isEcdsa } from "./signature.ts";
import { readTdxCollateral } from "./tdx-collateral.ts";
import type { ReadCollateral } from "./tdx-collateral.ts";
import { moduleFault, statusFault } from "./tdx-module.ts";
import { readTdxQuote, tdReportLayout, tdxImageHash } from "./tdx-quote.ts";
import type { TdReport, TdxQuote } from "./tdx-quote.ts";

export const tdxChecks = [
  "quote_format",
  "collateral_format",
  "pck_chain",
  "qe_report",
  "quote_signature",
  "qe_vendor",
  "tcb_info_signature",
  "qe_identity_signature",
  "root_crl",
  "pck_crl",
  "revocation",
  "collateral_platform",
  "collateral_dates",
  "collateral_age",
  "tcb_evaluation",
  "dcap_qvl",
  "tcb_status",
  "tdx_module",
  "mrseam",
  "td_attributes",
  "service_td",
  "image_hash",
  "platform",
  "report_data",
] as const;

export type TdxCheck = (typeof tdxChecks)[number];
type Checks = Checklist<TdxCheck>;

/** SHA-256 of the DER of "Intel SGX Root CA", valid until 2049, which also certifies TDX. */
export const intelRoots: Anchors = new Set([
  "44a0196b2b99f889b8e149e95b807a350e7424964399e885a7cbb8ccfab674d3",
]);

/** Intel's quoting enclaves (Intel TDX DCAP Quoting Library API, A.3). */
const intelQeVendorId = "939a7233f79c4ca9940a0db3957f0607";

const maxCollateralAgeMs = 30 * 24 * 3_600_000;

/** PCK: certificate, authority, root. Signer of TCB info and QE identity: certificate, root. */
const pckChainLength = 3;
const signerChainLength = 2;

/** `quote` and `collateral` come from whoever is verified. `now`: milliseconds since 1970. `report_data` is left open. */
export async function inspectTdx(
  quoteBytes: Bytes,
  collateralValue: unknown,
  policy: VerificationPolicy,
  anchors: Anchors,
  now: number,
): Promise<Inspection<TdxCheck>> {
  const checks = createChecklist(tdxChecks);
  const quote = readTdxQuote(quoteBytes);
  const read = readTdxCollateral(collateralValue);
  checks.record("quote_format", quote === undefined ? "not a TDX quote" : undefined);
  checks.record("collateral_format", typeof read === "string" ? read : undefined);
  if (quote === undefined) return { checks, findings: {}, reportData: undefined };
  await checkQuote(checks, quote, anchors, now);
  const platform = readPckPlatform(quote.pckChain[0]);
  const imageHash = await tdxImageHash(quote.body);
  checkTd(checks, quote.body, policy);
  checkLists(checks, imageHash, platform?.ppid, policy);
  const { reportData } = quote.body;
  const measurements = readMeasurements(quote.body);
  const seen: Findings = { imageHash, measurements, ...(platform && { platform: platform.ppid }) };
  if (typeof read === "string") return { checks, findings: seen, reportData };
  await checkSigners(checks, read, anchors, now);
  await checkRevocation(checks, quote, read, now);
  checkCollateral(checks, read, policy, now);
  const { fmspc, pceId } = read.tcbInfo;
  const isSame = platform?.fmspc === fmspc && platform.pceId === pceId;
  checks.record("collateral_platform", isSame ? undefined : "it is for another kind of machine");
  const verdict = await secondOpinion(checks, quoteBytes, quote, read, now);
  checkTcb(checks, verdict, quote, read, policy);
  const evaluation = evaluationNumber(read);
  const tcb = verdict.ok
    ? { status: verdict.status, advisories: verdict.advisories, evaluation }
    : { status: "Unknown", advisories: [], evaluation };
  const validUntil = earliestEnd(quote, read, policy);
  return { checks, findings: { ...seen, tcb, validUntil }, reportData };
}

async function checkQuote(
  checks: Checks,
  quote: TdxQuote,
  anchors: Anchors,
  now: number,
): Promise<void> {
  const { pckChain, qeReport, qeAuthData, attestationKey, signedBytes, signature } = quote;
  checks.record("pck_chain", await chainFault(pckChain, pckChainLength, anchors, now));
  const isIntel = toHex(quote.qeVendorId) === intelQeVendorId;
  checks.record("qe_vendor", isIntel ? undefined : "the quoting enclave is not Intel's");
  checks.record("qe_report", await qeReportFault(quote));
  const isSigned = await isEcdsa("p256", attestationKey, signature, signedBytes);
  checks.record("quote_signature", isSigned ? undefined : "the attestation key did not sign it");

  async function qeReportFault({ qeReportSignature }: TdxQuote): Promise<string | undefined> {
    const pck = pckChain[0];
    if (pck === undefined) return "there is no PCK certificate";
    if (!(await isEcdsa("p256", pck.publicKey, qeReportSignature, qeReport))) {
      return "the PCK key did not sign it";
    }
    // The library hashes 32 bytes of authentication data whatever their number (0.3.9).
    if (qeAuthData.length !== 32) return "its authentication data is not 32 bytes";
    const bound = new Uint8Array(
      await crypto.subtle.digest("SHA-256", joinBytes(attestationKey, qeAuthData)),
    );
    const isBound = sameBytes(qeReport.subarray(320, 352), bound);
    return isBound ? undefined : "it does not bind the attestation key";
  }
}

async function checkSigners(
  checks: Checks,
  read: ReadCollateral,
  anchors: Anchors,
  now: number,
): Promise<void> {
  const { text, tcbInfoChain, tcbInfoSignature, qeIdentityChain, qeIdentitySignature } = read;
  const fault = async (
    chain: readonly Certificate[],
    signature: Bytes,
    signedText: string,
  ): Promise<string | undefined> => {
    const broken = await chainFault(chain, signerChainLength, anchors, now);
    const signer = chain[0];
    if (broken !== undefined || signer === undefined) return broken;
    const message = new TextEncoder().encode(signedText);
    const isSigned = await isEcdsa("p256", signer.publicKey, signature, message);
    return isSigned ? undefined : `"${signer.commonName}" did not sign it`;
  };
  const tcbInfoFault = await fault(tcbInfoChain, tcbInfoSignature, text.tcb_info);
  checks.record("tcb_info_signature", tcbInfoFault);
  const identityFault = await fault(qeIdentityChain, qeIdentitySignature, text.qe_identity);
  checks.record("qe_identity_signature", identityFault);
}

/** The root revokes authorities and signers, the PCK authority revokes machines; both lists must speak. */
async function checkRevocation(
  checks: Checks,
  quote: TdxQuote,
  read: ReadCollateral,
  now: number,
): Promise<void> {
  const [pck, authority, root] = quote.pckChain;
  const { rootCrl, pckCrl } = read;
  const byRoot = checks.record("root_crl", await revocationListFault(rootCrl, root, now));
  const byAuthority = checks.record("pck_crl", await revocationListFault(pckCrl, authority, now));
  if (!byRoot || !byAuthority) return;
  const underRoot = [authority, root, ...read.tcbInfoChain, ...read.qeIdentityChain];
  const isRevoked =
    underRoot.some((certificate) => certificate && rootCrl?.revoked.has(certificate.serial)) ||
    (pck !== undefined && pckCrl?.revoked.has(pck.serial) === true);
  checks.record("revocation", isRevoked ? "a certificate has been revoked" : undefined);
}

function checkCollateral(
  checks: Checks,
  { tcbInfo, qeIdentity }: ReadCollateral,
  policy: VerificationPolicy,
  now: number,
): void {
  const issued = [tcbInfo, qeIdentity];
  const isFuture = issued.some(({ issueDate }) => now < issueDate);
  const isPast = issued.some(({ nextUpdate }) => now >= nextUpdate);
  const dates = isFuture ? "it is from the future" : isPast ? "it has expired" : undefined;
  checks.record("collateral_dates", dates);
  const maxAge = policy.maxCollateralAgeMs ?? maxCollateralAgeMs;
  const isOld = issued.some(({ issueDate }) => now - issueDate > maxAge);
  checks.record("collateral_age", isOld ? "it was issued too long ago" : undefined);
  const least = policy.minTcbEvaluation;
  if (least === undefined) return checks.skip("tcb_evaluation", "the policy names no minimum");
  const isBehind = issued.some(({ tcbEvaluationDataNumber: number }) => number < least);
  checks.record("tcb_evaluation", isBehind ? `its number is below ${least}` : undefined);
}

async function secondOpinion(
  checks: Checks,
  bytes: Bytes,
  quote: TdxQuote,
  read: ReadCollateral,
  now: number,
): Promise<DcapVerdict> {
  const root = quote.pckChain.at(-1);
  const verdict: DcapVerdict =
    // Without a trusted root there is nothing to ask about, and the library is not given untrusted input.
    root === undefined || !hasPassed(checks, "pck_chain")
      ? { ok: false, why: "not asked: the chain is not trusted" }
      : await askDcap(bytes, read.text, root.raw, now);
  checks.record("dcap_qvl", verdict.ok ? undefined : verdict.why);
  return verdict;
}

function hasPassed(checks: Checks, name: TdxCheck): boolean {
  return checks.list().some((check) => check.name === name && check.result === "pass");
}

function checkTcb(
  checks: Checks,
  verdict: DcapVerdict,
  quote: TdxQuote,
  { tcbInfo }: ReadCollateral,
  policy: VerificationPolicy,
): void {
  const status = verdict.ok
    ? statusFault(verdict.status, verdict.advisories, policy)
    : `no verdict: ${verdict.why}`;
  checks.record("tcb_status", status);
  checks.record("tdx_module", moduleFault(quote.body, tcbInfo, policy));
}

function checkTd(checks: Checks, report: TdReport, policy: VerificationPolicy): void {
  // Byte 0 of TD_ATTRIBUTES: DEBUG and its reserved neighbours, all of which make a TD untrusted.
  const isDebug = report.tdAttributes[0] !== 0;
  checks.record("td_attributes", isDebug ? "the TD can be debugged" : undefined);
  const isServed = report.mrservicetd !== undefined && !isZero(report.mrservicetd);
  checks.record("service_td", isServed ? "a service TD is bound to it" : undefined);
  const modules = policy.mrseam ?? [];
  if (modules.length === 0) return checks.skip("mrseam", "the policy names no module");
  const mrseam = toHex(report.mrseam);
  const isListed = modules.some((module) => module.toLowerCase() === mrseam);
  checks.record("mrseam", isListed ? undefined : `module ${mrseam} is not in the policy`);
}

function readMeasurements(report: TdReport): Readonly<Record<string, string>> {
  const registers: Record<string, string> = {};
  for (const [name] of tdReportLayout) {
    if (name !== "reportData") registers[name] = toHex(report[name]);
  }
  return registers;
}

function evaluationNumber({ tcbInfo, qeIdentity }: ReadCollateral): number {
  return Math.min(tcbInfo.tcbEvaluationDataNumber, qeIdentity.tcbEvaluationDataNumber);
}

function earliestEnd(quote: TdxQuote, read: ReadCollateral, policy: VerificationPolicy): number {
  const { tcbInfo, qeIdentity, rootCrl, pckCrl } = read;
  const maxAge = policy.maxCollateralAgeMs ?? maxCollateralAgeMs;
  const chains = [quote.pckChain, read.tcbInfoChain, read.qeIdentityChain].flat();
  return Math.min(
    ...chains.map(({ notAfter }) => notAfter),
    ...[tcbInfo, qeIdentity, rootCrl, pckCrl].map((item) => item?.nextUpdate ?? Infinity),
    ...[tcbInfo, qeIdentity].map(({ issueDate }) => issueDate + maxAge),
  );
}
