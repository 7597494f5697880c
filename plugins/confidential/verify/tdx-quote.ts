/** Intel TDX quotes, versions 4 and 5 (Intel TDX DCAP Quoting Library API, appendix A). All lengths are checked. */
import { isZero, sha256Hex, joinBytes, type Bytes } from "./binary-text.ts";
import { readPem, type Certificate } from "./certificate.ts";

export interface TdxQuote {
  readonly version: number;
  readonly qeVendorId: Bytes;
  readonly body: TdReport;
  /** Header and body, which the attestation key signed. */
  readonly signedBytes: Bytes;
  /** Signature by the attestation key: r and s. */
  readonly signature: Bytes;
  /** Coordinates X and Y. */
  readonly attestationKey: Bytes;
  /** The quoting enclave's report, 384 bytes. Its report data binds the attestation key. */
  readonly qeReport: Bytes;
  /** Signature by the PCK key: r and s. */
  readonly qeReportSignature: Bytes;
  readonly qeAuthData: Bytes;
  /** The PCK certificate, its authority, and the root. */
  readonly pckChain: readonly Certificate[];
}

/** The registers, unchanged from the report. `tdAttributes`, `xfam` and `seamAttributes` are little endian. */
export interface TdReport {
  readonly teeTcbSvn: Bytes;
  readonly mrseam: Bytes;
  readonly mrsignerseam: Bytes;
  readonly seamAttributes: Bytes;
  readonly tdAttributes: Bytes;
  readonly xfam: Bytes;
  readonly mrtd: Bytes;
  readonly mrconfigid: Bytes;
  readonly mrowner: Bytes;
  readonly mrownerconfig: Bytes;
  readonly rtmr0: Bytes;
  readonly rtmr1: Bytes;
  readonly rtmr2: Bytes;
  readonly rtmr3: Bytes;
  readonly reportData: Bytes;
  /** Measurement of the service TD. Missing in reports of TDX 1.0. */
  readonly mrservicetd?: Bytes;
}

/** Name and length of each field, in the order of the report of TDX 1.0. The report has 584 bytes. */
export const tdReportLayout = [
  ["teeTcbSvn", 16],
  ["mrseam", 48],
  ["mrsignerseam", 48],
  ["seamAttributes", 8],
  ["tdAttributes", 8],
  ["xfam", 8],
  ["mrtd", 48],
  ["mrconfigid", 48],
  ["mrowner", 48],
  ["mrownerconfig", 48],
  ["rtmr0", 48],
  ["rtmr1", 48],
  ["rtmr2", 48],
  ["rtmr3", 48],
  ["reportData", 64],
] as const;

const headerBytes = 48;
const tdReportBytes = 584;
/** TDX 1.5 adds TEE_TCB_SVN_2 (16) and MRSERVICETD (48). */
const tdReport15Bytes = 648;
const teeTypeTdx = 0x81;
const ecdsaP256 = 2;
const qeReportBytes = 384;
/** Kinds of certification data: the quoting enclave's report with its certification, and a PCK chain in PEM. */
const qeReportCertification = 6;
const pckChainPem = 5;

/** After the first read beyond the end, all reads return undefined. */
interface Cursor {
  take(length: number): Bytes | undefined;
  number(octets: 2 | 4): number | undefined;
  rest(): Bytes;
}

function cursor(bytes: Bytes): Cursor {
  let at = 0;
  const take = (length: number): Bytes | undefined => {
    if (at + length > bytes.length) {
      at = bytes.length + 1;
      return undefined;
    }
    at += length;
    return bytes.subarray(at - length, at);
  };
  return {
    take,
    number(octets) {
      const taken = take(octets);
      return taken?.reduceRight((value, octet) => value * 256 + octet, 0);
    },
    rest: () => bytes.subarray(Math.min(at, bytes.length)),
  };
}

/** Undefined unless the bytes are a TDX quote of version 4 or 5 with an ECDSA-P256 signature and a PCK chain. */
export function readTdxQuote(bytes: Bytes): TdxQuote | undefined {
  const from = cursor(bytes);
  const version = from.number(2);
  const keyType = from.number(2);
  const teeType = from.number(4);
  from.take(4);
  const qeVendorId = from.take(16);
  from.take(20);
  if (version === undefined || keyType !== ecdsaP256 || teeType !== teeTypeTdx) return undefined;
  const report = version === 4 ? from.take(tdReportBytes) : version === 5 ? body5(from) : undefined;
  if (report === undefined || qeVendorId === undefined) return undefined;
  const signedLength = headerBytes + (version === 5 ? 6 : 0) + report.length;
  const authentication = from.take(from.number(4) ?? Infinity);
  // Quoting services round the buffer up. The bytes after the quote are not signed, so they must be zero.
  if (authentication === undefined || !isZero(from.rest())) return undefined;
  const rest = readAuthentication(authentication);
  if (rest === undefined) return undefined;
  const signedBytes = bytes.subarray(0, signedLength);
  return { version, qeVendorId, body: readTdReport(report), signedBytes, ...rest };
}

/** Reads the body of version 5, which has the kind and the length of the report. Both must match. */
function body5(from: Cursor): Bytes | undefined {
  const kind = from.number(2);
  const length = from.number(4);
  if (kind === 2 && length === tdReportBytes) return from.take(length);
  return kind === 3 && length === tdReport15Bytes ? from.take(length) : undefined;
}

function readTdReport(bytes: Bytes): TdReport {
  const fields: Record<string, Bytes> = {};
  let at = 0;
  for (const [name, length] of tdReportLayout) {
    fields[name] = bytes.subarray(at, at + length);
    at += length;
  }
  if (bytes.length === tdReport15Bytes) fields["mrservicetd"] = bytes.subarray(at + 16, at + 64);
  // The layout names every required field of TdReport.
  return fields as unknown as TdReport;
}

type Authentication = Omit<TdxQuote, "version" | "qeVendorId" | "body" | "signedBytes">;

function readAuthentication(bytes: Bytes): Authentication | undefined {
  const from = cursor(bytes);
  const signature = from.take(64);
  const attestationKey = from.take(64);
  const outerKind = from.number(2);
  const inner = from.take(from.number(4) ?? Infinity);
  if (signature === undefined || attestationKey === undefined || inner === undefined) {
    return undefined;
  }
  if (outerKind !== qeReportCertification || from.rest().length > 0) return undefined;
  const nested = cursor(inner);
  const qeReport = nested.take(qeReportBytes);
  const qeReportSignature = nested.take(64);
  const qeAuthData = nested.take(nested.number(2) ?? Infinity);
  const innerKind = nested.number(2);
  const pem = nested.take(nested.number(4) ?? Infinity);
  if (innerKind !== pckChainPem || pem === undefined || nested.rest().length > 0) return undefined;
  const pckChain = readPem(latin1(pem));
  if (qeReport === undefined || qeReportSignature === undefined || qeAuthData === undefined) {
    return undefined;
  }
  if (pckChain === undefined) return undefined;
  return { signature, attestationKey, qeReport, qeReportSignature, qeAuthData, pckChain };
}

/** PEM is ASCII, and other characters are refused by the PEM parser. */
function latin1(bytes: Bytes): string {
  let text = "";
  for (const octet of bytes) text += String.fromCharCode(octet);
  return text;
}

/**
 * SHA-256 of MRTD, MRCONFIGID, MROWNER, MROWNERCONFIG, RTMR0 to RTMR3 and 64 zero bytes in place of the report data,
 * 448 bytes in total.
 */
export function tdxImageHash(report: TdReport): Promise<string> {
  const { mrtd, mrconfigid, mrowner, mrownerconfig, rtmr0, rtmr1, rtmr2, rtmr3 } = report;
  const registers = [mrtd, mrconfigid, mrowner, mrownerconfig, rtmr0, rtmr1, rtmr2, rtmr3];
  return sha256Hex(joinBytes(...registers, new Uint8Array(64)));
}
