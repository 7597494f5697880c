/**
 * Intel TDX evidence (confidential-stream.md, 3.5). This file verifies signatures, chains and revocation lists.
 * @phala/dcap-qvl verifies the quote a second time and determines the platform's TCB status.
 */
import { OctetString } from "@peculiar/asn1-schema";
import { isZero, joinBytes, sameBytes, toHex, type Bytes, toBase64 } from "./binary-text.ts";
import { chainFault, type TrustAnchors } from "./chain.ts";
import { createChecklist } from "./checklist.ts";
import { checkAllowLists, type Findings, type Inspection } from "./inspection.ts";
import type { VerificationPolicy } from "./policy.ts";
import { isEcdsa } from "./signature.ts";
import { tdxChecks, type TdxCheck, type TdxChecklist } from "./tdx-checks.ts";
import {
  checkCollateral,
  checkRevocation,
  checkSigners,
  earliestExpiry,
  evaluationNumber,
} from "./tdx-collateral-checks.ts";
import { readTdxCollateral, type ParsedCollateral, type TdxCollateral } from "./tdx-collateral.ts";
import { moduleFault, statusFault } from "./tdx-module.ts";
import {
  readTdxQuote,
  tdReportLayout,
  tdxImageHash,
  type TdReport,
  type TdxQuote,
} from "./tdx-quote.ts";
import { Fields, octetsHex, readAsn1 } from "./asn1.ts";
import type { Certificate } from "./certificate.ts";

const sgxExtension = "1.2.840.113741.1.13.1";

/** SHA-256 of the DER of "Intel SGX Root CA", valid until 2049, which also certifies TDX. */
export const intelRoots: TrustAnchors = new Set([
  "44a0196b2b99f889b8e149e95b807a350e7424964399e885a7cbb8ccfab674d3",
]);

/** Vendor id of Intel's quoting enclaves (Intel TDX DCAP Quoting Library API, appendix A). */
const intelQeVendorId = "939a7233f79c4ca9940a0db3957f0607";

/** The chain has three certificates: the machine's, its authority's, and the root. */
const pckChainLength = 3;

/**
 * Checks everything except `report_data`, which the caller checks. `quoteBytes`, `collateralValue`: input from the
 * party that is verified, which is not trusted. `now`: milliseconds since 1970.
 */
export async function inspectTdx(
  quoteBytes: Bytes,
  collateralValue: unknown,
  policy: VerificationPolicy,
  anchors: TrustAnchors,
  now: number,
): Promise<Inspection<TdxCheck>> {
  const checks = createChecklist(tdxChecks);
  const quote = readTdxQuote(quoteBytes);
  const read = readTdxCollateral(collateralValue);
  checks.record("quote_format", quote === undefined ? "the quote is not a TDX quote" : undefined);
  checks.record("collateral_format", typeof read === "string" ? read : undefined);
  if (quote === undefined) return { checks, findings: {}, reportData: undefined };
  await checkQuote(checks, quote, anchors, now);
  const platform = readPckPlatform(quote.pckChain[0]);
  const imageHash = await tdxImageHash(quote.body);
  checkTd(checks, quote.body, policy);
  checkAllowLists(checks, imageHash, platform?.ppid, policy);
  const { reportData } = quote.body;
  const measurements = readMeasurements(quote.body);
  const seen: Findings = { imageHash, measurements, ...(platform && { platform: platform.ppid }) };
  if (typeof read === "string") return { checks, findings: seen, reportData };
  await checkSigners(checks, read, anchors, now);
  await checkRevocation(checks, quote, read, now);
  checkCollateral(checks, read, policy, now);
  const { fmspc, pceId } = read.tcbInfo;
  const isSame = platform?.fmspc === fmspc && platform.pceId === pceId;
  checks.record(
    "collateral_platform",
    isSame ? undefined : "the collateral is for another kind of machine",
  );
  const verdict = await verifyWithLibrary(checks, quoteBytes, quote, read, now);
  checkTcb(checks, verdict, quote, read, policy);
  const evaluation = evaluationNumber(read);
  const tcb = verdict.ok
    ? { status: verdict.status, advisories: verdict.advisories, evaluation }
    : { status: "Unknown", advisories: [], evaluation };
  const validUntil = earliestExpiry(quote, read, policy);
  return { checks, findings: { ...seen, tcb, validUntil }, reportData };
}

async function checkQuote(
  checks: TdxChecklist,
  quote: TdxQuote,
  anchors: TrustAnchors,
  now: number,
): Promise<void> {
  const { pckChain, attestationKey, signedBytes, signature } = quote;
  checks.record("pck_chain", await chainFault(pckChain, pckChainLength, anchors, now));
  const isIntel = toHex(quote.qeVendorId) === intelQeVendorId;
  checks.record("qe_vendor", isIntel ? undefined : "the quoting enclave is not from Intel");
  checks.record("qe_report", await qeReportFault(quote));
  const isSigned = await isEcdsa("p256", attestationKey, signature, signedBytes);
  checks.record(
    "quote_signature",
    isSigned ? undefined : "the quote is not signed by the attestation key",
  );
}

/** Checks that the PCK key signed the quoting enclave's report, and that the report binds the attestation key. */
async function qeReportFault(quote: TdxQuote): Promise<string | undefined> {
  const { pckChain, qeReport, qeReportSignature, qeAuthData, attestationKey } = quote;
  const pck = pckChain[0];
  if (pck === undefined) return "the PCK certificate is missing";
  if (!(await isEcdsa("p256", pck.publicKey, qeReportSignature, qeReport))) {
    return "the QE report is not signed by the PCK key";
  }
  const bound = new Uint8Array(
    await crypto.subtle.digest("SHA-256", joinBytes(attestationKey, qeAuthData)),
  );
  const isBound = sameBytes(qeReport.subarray(320, 352), bound);
  return isBound ? undefined : "the QE report does not bind the attestation key";
}

async function verifyWithLibrary(
  checks: TdxChecklist,
  bytes: Bytes,
  quote: TdxQuote,
  read: ParsedCollateral,
  now: number,
): Promise<DcapVerdict> {
  const root = quote.pckChain.at(-1);
  // The library parses its input before it verifies it, so it gets only data that Intel signed.
  const isTrusted = (["pck_chain", "tcb_info_signature", "qe_identity_signature"] as const).every(
    (name) => checkPassed(checks, name),
  );
  const verdict: DcapVerdict =
    root === undefined || !isTrusted
      ? {
          ok: false,
          why: "not run, because pck_chain, tcb_info_signature or qe_identity_signature did not pass",
        }
      : await verifyWithDcap(bytes, read.text, root.raw, now);
  checks.record("dcap_qvl", verdict.ok ? undefined : verdict.why);
  return verdict;
}

function checkPassed(checks: TdxChecklist, name: TdxCheck): boolean {
  return checks.list().some((check) => check.name === name && check.result === "pass");
}

function checkTcb(
  checks: TdxChecklist,
  verdict: DcapVerdict,
  quote: TdxQuote,
  { tcbInfo }: ParsedCollateral,
  policy: VerificationPolicy,
): void {
  const status = verdict.ok
    ? statusFault(verdict.status, verdict.advisories, policy)
    : `no TCB status: ${verdict.why}`;
  checks.record("tcb_status", status);
  checks.record("tdx_module", moduleFault(quote.body, tcbInfo, policy));
}

function checkTd(checks: TdxChecklist, report: TdReport, policy: VerificationPolicy): void {
  // Byte 0 of TD_ATTRIBUTES contains DEBUG and reserved bits. A TD with any of them is not trusted.
  const isDebug = report.tdAttributes[0] !== 0;
  checks.record("td_attributes", isDebug ? "the TD can be debugged" : undefined);
  const isServed = report.mrservicetd !== undefined && !isZero(report.mrservicetd);
  checks.record("service_td", isServed ? "a service TD is bound to the TD" : undefined);
  const modules = policy.mrseam ?? [];
  if (modules.length === 0) return checks.skip("mrseam", "the policy lists no TDX module");
  const mrseam = toHex(report.mrseam);
  const isListed = modules.some((module) => module.toLowerCase() === mrseam);
  checks.record("mrseam", isListed ? undefined : `the policy does not list the module ${mrseam}`);
}

function readMeasurements(report: TdReport): Readonly<Record<string, string>> {
  const registers: Record<string, string> = {};
  for (const [name] of tdReportLayout) {
    if (name !== "reportData") registers[name] = toHex(report[name]);
  }
  return registers;
}

type DcapVerdict =
  | { readonly ok: true; readonly status: string; readonly advisories: readonly string[] }
  | { readonly ok: false; readonly why: string };

/**
 * @phala/dcap-qvl follows Intel's algorithm from the quote to the platform's TCB status. It is loaded at the first
 * quote, because it contains its own ASN.1 parser and elliptic curves. It ignores revocation lists that it cannot read
 * (version 0.3.9); therefore `crl.ts` verifies them. `root`: DER of the root to trust. `now`: milliseconds since 1970.
 */
async function verifyWithDcap(
  quote: Bytes,
  collateral: TdxCollateral,
  root: Bytes,
  now: number,
): Promise<DcapVerdict> {
  const { QuoteVerifier, utils } = await import("@phala/dcap-qvl");
  try {
    // From PEM, the library creates the kind of Buffer that it needs: in a browser, its own.
    const pem = `-----BEGIN CERTIFICATE-----\n${toBase64(root)}\n-----END CERTIFICATE-----\n`;
    // The library accepts any Uint8Array, although its type declares Buffer.
    const [anchor] = utils.extractCerts(new TextEncoder().encode(pem) as Buffer);
    if (anchor === undefined) return { ok: false, why: "the root certificate cannot be read" };
    const verifier = QuoteVerifier.newWithRootCa(anchor);
    // The type requires this member, but the library does not read it.
    const whole = { ...collateral, pck_crl_issuer_chain: "" };
    const verdict = verifier.verify(quote, whole, Math.floor(now / 1000));
    return { ok: true, status: verdict.status, advisories: verdict.advisory_ids };
  } catch (error) {
    return {
      ok: false,
      why: error instanceof Error ? error.message.slice(0, 200) : "the library refused the quote",
    };
  }
}

/** Facts about a machine, in lower-case hex: Intel's SGX extension (Intel SGX PCK Certificate and CRL Profile). */
interface PckPlatform {
  /** Identifier of the machine, 16 bytes. */
  readonly ppid: string;
  /** Family of the machine, 6 bytes. The TCB info must be for the same family. */
  readonly fmspc: string;
  /** Identifier of the provisioning certification enclave (PCE), 2 bytes. */
  readonly pceId: string;
}

function readPckPlatform(certificate: Certificate | undefined): PckPlatform | undefined {
  const value = certificate?.extensions.get(sgxExtension);
  const fields = new Map<string, string>();
  for (const { type, value: field } of (value && readAsn1(value, Fields)) ?? []) {
    if (fields.has(type)) return undefined;
    const octets = field.anyValue && readAsn1(new Uint8Array(field.anyValue), OctetString);
    fields.set(type, octets === undefined ? "" : octetsHex(octets.buffer));
  }
  const ppid = fields.get(`${sgxExtension}.1`);
  const pceId = fields.get(`${sgxExtension}.3`);
  const fmspc = fields.get(`${sgxExtension}.4`);
  if (ppid?.length !== 32 || pceId?.length !== 4 || fmspc?.length !== 12) return undefined;
  return { ppid, fmspc, pceId };
}
