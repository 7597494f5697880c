/**
 * The certificates and revocation lists of a simulated TDX platform. They have the same structure as Intel's, under a
 * root whose name marks it as a simulation.
 */
import { joinBytes } from "../verify/binary-text.ts";
import type { Bytes } from "../verify/binary-text.ts";
import { simulatedRootName } from "../verify/simulation.ts";
import * as der from "./der-writer.ts";
import { deriveBytes, deriveKey } from "./simulated-keys.ts";
import type { SigningKey } from "./simulated-keys.ts";

export interface CertifiedKey {
  readonly key: SigningKey;
  /** DER. */
  readonly certificate: Bytes;
  /** DER. */
  readonly name: Bytes;
  /** Serial number, big endian. */
  readonly serial: Bytes;
}

export interface SimulatedPki {
  readonly root: CertifiedKey;
  /** Issues the machine's certificate. Certified by the root. */
  readonly authority: CertifiedKey;
  /** Key of the machine. Certifies the quoting enclave. */
  readonly pck: CertifiedKey;
  /** Signs TCB info and QE identity. Certified by the root. */
  readonly signer: CertifiedKey;
  /** Signs quotes. Certified only by the quoting enclave's report. */
  readonly attestation: SigningKey;
}

/** The values that the machine's certificate and the TCB info must both have. */
export const simulatedMachine = {
  fmspc: "53494d000000",
  pceId: "0000",
  pceSvn: 11,
  cpuSvn: new Uint8Array(16).fill(5),
} as const;

const validFrom = Date.UTC(2020, 0, 1);
const validTo = Date.UTC(2049, 11, 31);
const ecdsaSha256 = der.sequence(der.objectId("1.2.840.10045.4.3.2"));
const p256 = der.sequence(der.objectId("1.2.840.10045.2.1"), der.objectId("1.2.840.10045.3.1.7"));
const sgx = "1.2.840.113741.1.13.1";

/** `seed`: 32 bytes. */
export function createPki(seed: Uint8Array): SimulatedPki {
  const root = certify(seed, "root", simulatedRootName, authorityExtensions(1));
  const authority = certify(seed, "authority", "SIMULATED PCK CA", authorityExtensions(0), root);
  const machine = [...leafExtensions(), extension(sgx, false, sgxValue(seed))];
  const pck = certify(seed, "pck", "SIMULATED PCK", machine, authority);
  const signer = certify(seed, "signer", "SIMULATED TCB Signing", leafExtensions(), root);
  return { root, authority, pck, signer, attestation: deriveKey(seed, "attestation") };
}

/** Without `issuer`, the certificate is self-signed. */
function certify(
  seed: Uint8Array,
  role: string,
  commonName: string,
  extensions: readonly Bytes[],
  issuer?: CertifiedKey,
): CertifiedKey {
  const key = deriveKey(seed, role);
  const name = writeName(commonName);
  // The serial number is positive and does not start with a zero.
  const serial = deriveBytes(seed, `serial ${role}`, 16);
  serial[0] = ((serial[0] ?? 0) & 0x3f) | 0x40;
  const body = der.sequence(
    der.writeDer(0xa0, der.smallInteger(2)),
    der.integer(serial),
    ecdsaSha256,
    issuer?.name ?? name,
    der.sequence(der.utcTime(validFrom), der.utcTime(validTo)),
    name,
    der.sequence(p256, der.bitString(joinBytes(Uint8Array.of(4), key.point))),
    der.writeDer(0xa3, der.sequence(...extensions)),
  );
  return { key, name, serial, certificate: seal(body, issuer?.key ?? key) };
}

/** Times are in milliseconds since 1970. */
export function revocationList(
  issuer: CertifiedKey,
  revoked: readonly CertifiedKey[],
  thisUpdate: number,
  nextUpdate: number,
): Bytes {
  const entries = revoked.map(({ serial }) =>
    der.sequence(der.integer(serial), der.utcTime(thisUpdate)),
  );
  const body = der.sequence(
    der.smallInteger(1),
    ecdsaSha256,
    issuer.name,
    der.utcTime(thisUpdate),
    der.utcTime(nextUpdate),
    // RFC 5280, 5.1.2.6: an empty list is omitted.
    ...(entries.length > 0 ? [der.sequence(...entries)] : []),
  );
  return seal(body, issuer.key);
}

function seal(body: Bytes, key: SigningKey): Bytes {
  const signature = key.sign(body);
  const pair = der.sequence(
    der.integer(signature.subarray(0, 32)),
    der.integer(signature.subarray(32)),
  );
  return der.sequence(body, ecdsaSha256, der.bitString(pair));
}

function writeName(commonName: string): Bytes {
  const utf8String = 0x0c;
  const value = der.writeDer(utf8String, new TextEncoder().encode(commonName));
  return der.sequence(der.writeDer(der.derTags.set, der.sequence(der.objectId("2.5.4.3"), value)));
}

function extension(id: string, isCritical: boolean, value: Bytes): Bytes {
  const flag = isCritical
    ? der.writeDer(der.derTags.boolean, Uint8Array.of(0xff))
    : new Uint8Array(0);
  return der.sequence(der.objectId(id), flag, der.octetString(value));
}

/**
 * Basic constraints with the maximum number of intermediate authorities, and the key usage for signing certificates and
 * revocation lists.
 */
function authorityExtensions(pathLength: number): readonly Bytes[] {
  const isAuthority = der.writeDer(der.derTags.boolean, Uint8Array.of(0xff));
  const constraints = der.sequence(isAuthority, der.smallInteger(pathLength));
  return [
    extension("2.5.29.19", true, constraints),
    extension("2.5.29.15", true, der.writeDer(der.derTags.bitString, Uint8Array.of(1, 0x06))),
  ];
}

/** The key usage: digital signatures. */
function leafExtensions(): readonly Bytes[] {
  return [
    extension("2.5.29.15", true, der.writeDer(der.derTags.bitString, Uint8Array.of(7, 0x80))),
  ];
}

/** The SGX extension of Intel's certificates: PPID, TCB, PCE id, FMSPC and type. */
function sgxValue(seed: Uint8Array): Bytes {
  const { fmspc, pceId, pceSvn, cpuSvn } = simulatedMachine;
  const field = (id: string, value: Bytes): Bytes =>
    der.sequence(der.objectId(`${sgx}.${id}`), value);
  const components = [...cpuSvn].map((svn, at) => field(`2.${at + 1}`, der.smallInteger(svn)));
  const tcb = der.sequence(
    ...components,
    field("2.17", der.smallInteger(pceSvn)),
    field("2.18", der.octetString(cpuSvn)),
  );
  return der.sequence(
    field("1", der.octetString(deriveBytes(seed, "ppid", 16))),
    field("2", tcb),
    field("3", der.octetString(Buffer.from(pceId, "hex"))),
    field("4", der.octetString(Buffer.from(fmspc, "hex"))),
    field("5", der.writeDer(der.derTags.enumerated, Uint8Array.of(0))),
  );
}

/** Returns the certificates in PEM, formatted like OpenSSL's output. */
export function writePem(...holders: readonly CertifiedKey[]): string {
  return holders
    .map(({ certificate }) => {
      const lines =
        Buffer.from(certificate)
          .toString("base64")
          .match(/.{1,64}/g) ?? [];
      return `-----BEGIN CERTIFICATE-----\n${lines.join("\n")}\n-----END CERTIFICATE-----\n`;
    })
    .join("");
}
