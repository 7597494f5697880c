/** A SEV-SNP platform with test roots. Every signature is valid, and each field can be changed. */
import { constants, generateKeyPairSync, sign, type KeyObject } from "node:crypto";
import * as der from "./der-writer.ts";
import {
  joinBytes,
  sha256Hex,
  toBase64,
} from "../../../../plugins/confidential/verify/binary-text.ts";
import type { Bytes } from "../../../../plugins/confidential/verify/binary-text.ts";
import type { AttestationEvidence } from "../../../../plugins/confidential/verify/evidence.ts";
import { signatureAlgorithms } from "../../../../plugins/confidential/verify/signature.ts";
import { certificateGuids } from "../../../../plugins/confidential/verify/snp-certificates.ts";
import type { HardwareRoots } from "../../../../plugins/confidential/verify/verify.ts";

const pss = Uint8Array.from(Buffer.from(signatureAlgorithms.pssSha384, "hex"));
const amd = "1.3.6.1.4.1.3704.1";

interface Party {
  readonly privateKey: KeyObject;
  readonly publicKey: KeyObject;
}

export interface VcekOptions {
  readonly product: string;
  readonly hardwareId: Uint8Array;
  readonly tcb: { bootloader: number; tee: number; snp: number; microcode: number; fmc?: number };
}

export interface SnpChanges {
  /** Bytes that replace bytes of the report before it is signed, by offset. */
  readonly report?: Readonly<Record<number, Uint8Array>>;
  readonly vcek?: Partial<VcekOptions>;
  /** Entries of the table that are added or replaced. An undefined entry is removed. */
  readonly table?: Readonly<Record<string, Uint8Array | undefined>>;
}

export interface SnpPlatform {
  readonly roots: HardwareRoots;
  evidence(changes?: SnpChanges): AttestationEvidence;
  /** Returns AMD's list with these serial numbers. Times are in milliseconds since 1970. */
  revocationList(serials: readonly number[], thisUpdate: number, nextUpdate: number): Bytes;
}

export const chipId = new Uint8Array(64).fill(0xc1);
export const snpReportData = new Uint8Array(64).fill(0x5d);
export const askSerial = 0x201;

export async function createSnpPlatform(
  product: "Milan" | "Turin" = "Milan",
): Promise<SnpPlatform> {
  const rsa = (): Party => generateKeyPairSync("rsa", { modulusLength: 2048 });
  const [ark, ask] = [rsa(), rsa()];
  const chip = generateKeyPairSync("ec", { namedCurve: "secp384r1" });
  const arkDer = certificate("ARK-Test", ark, "ARK-Test", ark, 0x200, authority());
  const askDer = certificate("SEV-Test", ask, "ARK-Test", ark, askSerial, authority());
  const none: ReadonlySet<string> = new Set();
  const trusted: ReadonlySet<string> = new Set([await sha256Hex(arkDer)]);
  const snp = { Milan: none, Genoa: none, Turin: none, [product]: trusted };
  const isTurin = product === "Turin";
  const facts: VcekOptions = {
    product: isTurin ? "Turin" : "Milan-B0",
    hardwareId: isTurin ? chipId.subarray(0, 8) : chipId,
    tcb: { bootloader: 3, tee: 1, snp: 8, microcode: 115, fmc: 2 },
  };
  return {
    roots: { tdx: none, snp },
    evidence(changes = {}) {
      const vcek = vcekExtensions({ ...facts, ...changes.vcek });
      const vcekDer = certificate("SEV-VCEK", chip, "SEV-Test", ask, 0, vcek);
      const report = writeReport(isTurin, chip.privateKey, changes.report ?? {});
      const table = writeTable({ vcek: vcekDer, ask: askDer, ark: arkDer, ...changes.table });
      return { tee_type: "sev-snp", quote: toBase64(report), aux: toBase64(table) };
    },
    revocationList(serials, thisUpdate, nextUpdate) {
      const entries = serials.map((serial) =>
        der.sequence(der.smallInteger(serial), der.utcTime(thisUpdate)),
      );
      const body = der.sequence(
        der.smallInteger(1),
        pss,
        name("ARK-Test"),
        der.utcTime(thisUpdate),
        der.utcTime(nextUpdate),
        ...(entries.length > 0 ? [der.sequence(...entries)] : []),
      );
      return der.sequence(body, pss, der.bitString(signPss(body, ark)));
    },
  };
}

function certificate(
  commonName: string,
  subject: Party,
  issuerName: string,
  issuer: Party,
  serial: number,
  extensions: readonly Bytes[],
): Bytes {
  const body = der.sequence(
    der.writeDer(0xa0, der.smallInteger(2)),
    der.smallInteger(serial),
    pss,
    name(issuerName),
    der.sequence(der.utcTime(Date.UTC(2022, 0, 1)), der.utcTime(Date.UTC(2045, 0, 1))),
    name(commonName),
    Uint8Array.from(subject.publicKey.export({ type: "spki", format: "der" })),
    der.writeDer(0xa3, der.sequence(...extensions)),
  );
  return der.sequence(body, pss, der.bitString(signPss(body, issuer)));
}

function signPss(body: Bytes, { privateKey: key }: Party): Bytes {
  const padding = constants.RSA_PKCS1_PSS_PADDING;
  return Uint8Array.from(sign("sha384", body, { key, padding, saltLength: 48 }));
}

function name(commonName: string): Bytes {
  const value = der.writeDer(0x0c, Buffer.from(commonName));
  return der.sequence(der.writeDer(der.derTags.set, der.sequence(der.objectId("2.5.4.3"), value)));
}

function authority(): readonly Bytes[] {
  const constraints = der.sequence(der.writeDer(der.derTags.boolean, Uint8Array.of(0xff)));
  return [der.sequence(der.objectId("2.5.29.19"), der.octetString(constraints))];
}

function vcekExtensions({ product, hardwareId, tcb }: VcekOptions): readonly Bytes[] {
  const field = (id: string, value: Uint8Array): Bytes =>
    der.sequence(der.objectId(`${amd}.${id}`), der.octetString(value));
  const levels = Object.entries({
    "3.1": tcb.bootloader,
    "3.2": tcb.tee,
    "3.3": tcb.snp,
    "3.8": tcb.microcode,
    "3.9": tcb.fmc ?? 0,
  });
  return [
    field("2", der.writeDer(der.derTags.ia5String, Buffer.from(product))),
    ...levels.map(([id, level]) => field(id, der.smallInteger(level))),
    field("4", hardwareId),
  ];
}

/** Returns a report of version 2, whose four TCBs are equal to the TCB of the VCEK above. */
function writeReport(
  isTurin: boolean,
  key: KeyObject,
  changes: Readonly<Record<number, Uint8Array>>,
): Bytes {
  const report = new Uint8Array(1184);
  const tcb = isTurin ? [2, 3, 1, 8, 0, 0, 0, 115] : [3, 1, 0, 0, 0, 0, 8, 115];
  const firmware = [3, 49, 1];
  const fields: Readonly<Record<number, ArrayLike<number>>> = {
    0x00: [2],
    0x08: [0, 0, 3],
    0x34: [1],
    0x38: tcb,
    0x50: snpReportData,
    0x90: new Uint8Array(48).fill(0x3e),
    0xc0: new Uint8Array(32).fill(0x40),
    0x180: tcb,
    0x1a0: isTurin ? chipId.subarray(0, 8) : chipId,
    0x1e0: tcb,
    0x1e8: firmware,
    0x1ec: firmware,
    0x1f0: tcb,
    ...changes,
  };
  for (const [at, bytes] of Object.entries(fields)) report.set(bytes, Number(at));
  const signature = sign("sha384", report.subarray(0, 0x2a0), { key, dsaEncoding: "ieee-p1363" });
  report.set(signature.subarray(0, 48).toReversed(), 0x2a0);
  report.set(signature.subarray(48).toReversed(), 0x2a0 + 72);
  return report;
}

/** `entries`: certificates by their names in `certificateGuids`, or blobs by GUID in hex. */
export function writeTable(entries: Readonly<Record<string, Uint8Array | undefined>>): Bytes {
  const guids: Readonly<Record<string, string>> = certificateGuids;
  const given = Object.entries(entries).filter((entry) => entry[1] !== undefined);
  const heads: Uint8Array[] = [];
  let offset = 24 * (given.length + 1);
  for (const [entry, blob = new Uint8Array(0)] of given) {
    const head = Buffer.alloc(24);
    head.set(Buffer.from(guids[entry] ?? entry, "hex"));
    head.writeUInt32LE(offset, 16);
    head.writeUInt32LE(blob.length, 20);
    heads.push(head);
    offset += blob.length;
  }
  const blobs = given.map(([, blob = new Uint8Array(0)]) => blob);
  return joinBytes(...heads, new Uint8Array(24), ...blobs);
}
