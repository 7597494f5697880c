/** The certificates for a SEV-SNP report: the host's table, and the facts about the chip in a VCEK certificate. */
import { ChipFact, readAsn1 } from "./asn1.ts";
import { toHex, type Bytes } from "./binary-text.ts";
import { readCertificate, type Certificate } from "./certificate.ts";
import { snpProducts, type SnpProduct, type SnpTcb } from "./policy.ts";

/** Entries by GUID (GHCB specification, SNP extended guest request), in the order in which they are written. */
export const certificateGuids = {
  vcek: "63da758de6644564adc5f4b93be8accd",
  ask: "4ab7b379bbac4fe4a02f05aef327c782",
  ark: "c0b406a4a803495297433fb6014cd0ae",
  crl: "92f81bc358114d3d97ffd19f88dc67ea",
} as const;

export interface SnpCertificates {
  /** VCEK, ASK, ARK. */
  readonly chain: readonly Certificate[];
  /** DER of AMD's revocation list. Hosts rarely include it, but the enclave's provider of evidence can add it. */
  readonly crl: Bytes | undefined;
}

const entryBytes = 24;
const maxEntries = 16;

/** Returns a text with the reason if the table is invalid. */
export function readCertificateTable(table: Bytes): SnpCertificates | string {
  const blobs = readTable(table);
  if (blobs === undefined) return "the certificate table cannot be read";
  const chain: Certificate[] = [];
  for (const name of ["vcek", "ask", "ark"] as const) {
    const der = blobs.get(certificateGuids[name]);
    if (der === undefined) return `the ${name.toUpperCase()} certificate is missing`;
    const certificate = readCertificate(der);
    if (certificate === undefined) return `the ${name.toUpperCase()} certificate cannot be read`;
    chain.push(certificate);
  }
  return { chain, crl: blobs.get(certificateGuids.crl) };
}

/** An entry has GUID, offset and length (little endian); an entry of zeros ends the table. */
function readTable(table: Bytes): ReadonlyMap<string, Bytes> | undefined {
  const view = new DataView(table.buffer, table.byteOffset, table.length);
  const blobs = new Map<string, Bytes>();
  for (let entry = 0; entry <= maxEntries; entry++) {
    const at = entry * entryBytes;
    if (at + entryBytes > table.length) return undefined;
    const guid = canonicalGuid(table.subarray(at, at + 16));
    const offset = view.getUint32(at + 16, true);
    const length = view.getUint32(at + 20, true);
    if (guid === "0".repeat(32)) return blobs;
    if (offset + length > table.length || blobs.has(guid)) return undefined;
    blobs.set(guid, table.subarray(offset, offset + length));
  }
  return undefined;
}

/**
 * Hosts write GUIDs in their written order or, like Microsoft, with the first three groups in little endian. Both are
 * accepted.
 */
function canonicalGuid(bytes: Bytes): string {
  const spelt = toHex(bytes);
  const groups = [bytes.subarray(0, 4), bytes.subarray(4, 6), bytes.subarray(6, 8)];
  const mixed = groups.map((group) => toHex(group.toReversed())).join("") + spelt.slice(16);
  const known: readonly string[] = Object.values(certificateGuids);
  return known.includes(mixed) ? mixed : spelt;
}

/** The chip and the firmware for which AMD derived the key. */
export interface VcekFacts {
  readonly product: SnpProduct;
  readonly tcb: SnpTcb;
  /** HWID: 64 bytes; 8 bytes for Turin. */
  readonly hardwareId: Bytes;
}

/** Object identifier of AMD's extensions (VCEK Certificate and KDS Interface Specification). */
const amd = "1.3.6.1.4.1.3704.1";

export function readVcek(certificate: Certificate): VcekFacts | undefined {
  const { extensions } = certificate;
  const level = (id: string): number | undefined => {
    const value = extensions.get(`${amd}.3.${id}`);
    const number = value && readAsn1(value, ChipFact)?.number;
    return typeof number === "number" && number >= 0 && number <= 255 ? number : undefined;
  };
  const product = readProduct(extensions.get(`${amd}.2`));
  const hardwareId = extensions.get(`${amd}.4`);
  const [bootloader, tee, snp, microcode] = [level("1"), level("2"), level("3"), level("8")];
  const fmc = product === "Turin" ? level("9") : 0;
  if (product === undefined || hardwareId === undefined || fmc === undefined) return undefined;
  if (bootloader === undefined || tee === undefined || snp === undefined) return undefined;
  if (microcode === undefined || hardwareId.length !== (product === "Turin" ? 8 : 64)) {
    return undefined;
  }
  return { product, tcb: { fmc, bootloader, tee, snp, microcode }, hardwareId };
}

/** Reads the product from an IA5String such as `Milan-B0` or `Turin`. */
function readProduct(value: Bytes | undefined): SnpProduct | undefined {
  const [name] = (value && readAsn1(value, ChipFact)?.name)?.split("-") ?? [];
  return snpProducts.find((product) => product === name);
}
