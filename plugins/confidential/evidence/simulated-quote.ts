/** Quotes of a simulated TDX platform, version 4 (TDX 1.0) and 5 (TDX 1.5), signed like those of a quoting enclave. */
import { createHash } from "node:crypto";
import { joinBytes, type Bytes } from "../verify/binary-text.ts";
import { tdReportLayout } from "../verify/tdx-quote.ts";
import { writePem, type SimulatedPki } from "./simulated-pki.ts";

export const simulatedEnclave = {
  mrsigner: sha("sha256", "simulated quoting enclave"),
  isvprodid: 2,
  isvsvn: 4,
  attributes: Uint8Array.of(0x11, ...new Uint8Array(15)),
} as const;

/** TEE_TCB_SVN: module version 1.5 with SVN 5. */
const teeTcbSvn = Uint8Array.of(5, 1, 5, ...new Uint8Array(13));

export interface SimulatedTd {
  /** 64 bytes. */
  readonly reportData: Uint8Array;
  readonly rtmr3: Uint8Array;
  readonly isDebug: boolean;
  readonly version: 4 | 5;
}

function writeTdReport(td: SimulatedTd): Bytes {
  const fields: Readonly<Record<string, Uint8Array>> = {
    teeTcbSvn,
    mrseam: sha("sha384", "simulated mrseam"),
    // Bit 0 is DEBUG, bit 28 SEPT_VE_DISABLE.
    tdAttributes: Uint8Array.of(td.isDebug ? 1 : 0, 0, 0, 0x10, 0, 0, 0, 0),
    xfam: Uint8Array.of(0xe7, 2, 6, 0, 0, 0, 0, 0),
    mrtd: sha("sha384", "simulated image sluice"),
    rtmr0: sha("sha384", "simulated rtmr0"),
    rtmr1: sha("sha384", "simulated rtmr1"),
    rtmr2: sha("sha384", "simulated rtmr2"),
    rtmr3: td.rtmr3,
    reportData: td.reportData,
  };
  const report = tdReportLayout.map(([name, length]) => fields[name] ?? new Uint8Array(length));
  const trailer = td.version === 5 ? [teeTcbSvn, new Uint8Array(48)] : [];
  return joinBytes(...report, ...trailer);
}

export function writeQuote(pki: SimulatedPki, td: SimulatedTd): Bytes {
  const report = writeTdReport(td);
  const kind = td.version === 5 ? [u16(3), u32(report.length)] : [];
  const signed = joinBytes(header(td.version), ...kind, report);
  const authData = sha("sha256", "simulated qe auth data");
  const bound = createHash("sha256").update(pki.attestation.point).update(authData).digest();
  const qeReport = writeQeReport(bound);
  const pem = Buffer.from(writePem(pki.pck, pki.authority, pki.root));
  const certification = joinBytes(
    qeReport,
    pki.pck.key.sign(qeReport),
    prefixed(authData, u16(authData.length)),
    u16(5),
    prefixed(pem, u32(pem.length)),
  );
  const authentication = joinBytes(
    pki.attestation.sign(signed),
    pki.attestation.point,
    u16(6),
    prefixed(certification, u32(certification.length)),
  );
  return joinBytes(signed, prefixed(authentication, u32(authentication.length)));
}

/** The header of 48 bytes: version, ECDSA-P256, TDX, and the vendor id of Intel's quoting enclaves. */
function header(version: number): Bytes {
  const vendor = Buffer.from("939a7233f79c4ca9940a0db3957f0607", "hex");
  return joinBytes(u16(version), u16(2), u32(0x81), new Uint8Array(4), vendor, new Uint8Array(20));
}

/** An enclave report of 384 bytes (Intel SDM 3D, REPORT). `bound`: 32 bytes. */
function writeQeReport(bound: Uint8Array): Bytes {
  const { mrsigner, isvprodid, isvsvn, attributes } = simulatedEnclave;
  const report = new Uint8Array(384);
  report.set(attributes, 48);
  report.set(mrsigner, 128);
  report.set(u16(isvprodid), 256);
  report.set(u16(isvsvn), 258);
  report.set(bound, 320);
  return report;
}

function prefixed(bytes: Uint8Array, length: Uint8Array): Bytes {
  return joinBytes(length, bytes);
}

function u16(value: number): Bytes {
  return Uint8Array.of(value & 0xff, value >> 8);
}

function u32(value: number): Bytes {
  return joinBytes(u16(value & 0xffff), u16(value >>> 16));
}

function sha(algorithm: "sha256" | "sha384", text: string): Uint8Array {
  return createHash(algorithm).update(text).digest();
}
