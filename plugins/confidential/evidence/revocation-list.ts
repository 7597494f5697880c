/**
 * AMD's revocation list, added to the certificate table of a SEV-SNP report, because verifiers do not fetch it and
 * hosts rarely include it. It comes from AMD's key distribution service (KDS) or from a mirror of it. AMD signed it, so
 * the server does not have to be trusted.
 */
import type { Clock } from "sluice-gateway/plugin";
import { joinBytes, readStream, toBase64, type Bytes } from "../verify/binary-text.ts";
import { readRevocationList } from "../verify/crl.ts";
import { readEvidence, type AttestationEvidence } from "../verify/evidence.ts";
import type { SnpProduct } from "../verify/policy.ts";
import { certificateGuids, readCertificateTable, readVcek } from "../verify/snp-certificates.ts";
import { HourlyValue } from "./hourly-value.ts";

/** Returns the DER of the list. Undefined if it cannot be fetched. Never rejects. */
export type RevocationListSource = (
  product: SnpProduct,
  signal: AbortSignal,
) => Promise<Bytes | undefined>;

export type FetchList = (url: string, signal: AbortSignal) => Promise<Uint8Array>;

/** Lists have about 1 kB. */
const maxListBytes = 32_768;

/** `url`: such as `https://kdsintf.amd.com`. Fetches at most once per hour and product. */
export function revocationListService(
  url: string,
  clock: Clock,
  fetchBytes: FetchList = fetchList,
): RevocationListSource {
  const base = url.replace(/\/+$/, "");
  const known = new Map<SnpProduct, HourlyValue<Bytes>>();
  return (product, signal) => {
    const list = known.get(product) ?? new HourlyValue<Bytes>(clock);
    known.set(product, list);
    const listUrl = `${base}/vcek/v1/${product}/crl`;
    return list.get(async (until) => validList(await fetchBytes(listUrl, until)), signal);
  };
}

function validList(bytes: Uint8Array): Bytes | undefined {
  if (bytes.length > maxListBytes) return undefined;
  const list = Uint8Array.from(bytes);
  return readRevocationList(list) === undefined ? undefined : list;
}

async function fetchList(url: string, signal: AbortSignal): Promise<Uint8Array> {
  const response = await fetch(url, { signal, redirect: "error" });
  if (!response.ok || response.body === null) throw new Error(`HTTP status ${response.status}`);
  const list = await readStream(response.body, maxListBytes);
  if (list === undefined) throw new Error("the list is too long");
  return list;
}

export async function stapleRevocationList(
  evidence: AttestationEvidence,
  source: RevocationListSource | undefined,
  signal: AbortSignal,
): Promise<AttestationEvidence> {
  const table = source === undefined ? undefined : tableOf(evidence);
  const certificates = table && readCertificateTable(table);
  if (source === undefined || table === undefined || typeof certificates !== "object") {
    return evidence;
  }
  const [vcek] = certificates.chain;
  const product = vcek && readVcek(vcek)?.product;
  const crl = product && (await source(product, signal));
  if (crl === undefined) return evidence;
  const [vcekDer, askDer, arkDer] = certificates.chain.map(({ raw }) => raw);
  const entries = { vcek: vcekDer, ask: askDer, ark: arkDer, crl };
  return { ...evidence, aux: toBase64(writeTable(entries)) };
}

export function hasRevocationList(evidence: AttestationEvidence): boolean {
  const table = tableOf(evidence);
  const certificates = table && readCertificateTable(table);
  return typeof certificates === "object" && certificates.crl !== undefined;
}

function tableOf(evidence: AttestationEvidence): Bytes | undefined {
  if (evidence.tee_type !== "sev-snp") return undefined;
  const read = readEvidence(evidence);
  return typeof read === "string" ? undefined : read.aux;
}

type EntryName = keyof typeof certificateGuids;

const headBytes = 24;

/** Writes a certificate table (GHCB specification, SNP extended guest request). `entries`: DER by name. */
function writeTable(entries: Readonly<Partial<Record<EntryName, Uint8Array>>>): Bytes {
  const heads: Uint8Array[] = [];
  const blobs: Uint8Array[] = [];
  // One more entry, because an entry of zeros ends the table.
  const count = Object.values(entries).filter((blob) => blob !== undefined).length;
  let offset = headBytes * (count + 1);
  for (const [name, guid] of Object.entries(certificateGuids)) {
    // The names come from certificateGuids.
    const blob = entries[name as EntryName];
    if (blob === undefined) continue;
    const head = Buffer.alloc(headBytes);
    head.write(guid, "hex");
    head.writeUInt32LE(offset, 16);
    head.writeUInt32LE(blob.length, 20);
    heads.push(head);
    blobs.push(blob);
    offset += blob.length;
  }
  return joinBytes(...heads, new Uint8Array(headBytes), ...blobs);
}
