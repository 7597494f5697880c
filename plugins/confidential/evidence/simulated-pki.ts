/**
 * The keys, certificates and revocation lists of a simulated platform. They have the same structure as Intel's, under a
 * root whose name marks it as a simulation. The same seed gives the same platform, byte for byte. That requires
 * deterministic signatures (RFC 6979), which node:crypto does not support.
 */
import { hkdfSync } from "node:crypto";
import { mapHashToField } from "@noble/curves/abstract/modular.js";
import { p256 } from "@noble/curves/nist.js";
import { sha256 } from "@noble/hashes/sha2.js";
import { AsnEnumeratedConverter, AsnIntegerConverter, OctetString } from "@peculiar/asn1-schema";
import * as x509 from "@peculiar/asn1-x509";
import { EcdsaSignature, Fields, writeAsn1 } from "../verify/asn1.ts";
import { joinBytes, toHex, type Bytes } from "../verify/binary-text.ts";
import { simulatedRootName } from "../verify/simulation.ts";

export interface SigningKey {
  /** X and Y, 64 bytes. */
  readonly point: Bytes;
  /** r and s, 64 bytes, over the SHA-256 of the message. */
  sign(message: Uint8Array): Bytes;
}

export interface CertifiedKey {
  readonly key: SigningKey;
  readonly certificate: Bytes;
  readonly name: x509.Name;
  /** Big endian. */
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

/** The machine's certificate and the TCB info must both have these values. */
export const simulatedMachine = {
  fmspc: "53494d000000",
  pceId: "0000",
  pceSvn: 11,
  cpuSvn: new Uint8Array(16).fill(5),
} as const;

const validity = new x509.Validity({
  notBefore: new Date(Date.UTC(2020, 0, 1)),
  notAfter: new Date(Date.UTC(2049, 11, 31)),
});
const ecdsaSha256 = new x509.AlgorithmIdentifier({ algorithm: "1.2.840.10045.4.3.2" });
const ecP256 = new x509.AlgorithmIdentifier({
  algorithm: "1.2.840.10045.2.1",
  // The object identifier 1.2.840.10045.3.1.7.
  parameters: Uint8Array.of(6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7).buffer,
});
const sgx = "1.2.840.113741.1.13.1";

export function createPki(seed: Uint8Array): SimulatedPki {
  const root = certify(seed, "root", simulatedRootName, authorityExtensions(1));
  const authority = certify(seed, "authority", "SIMULATED PCK CA", authorityExtensions(0), root);
  const machine = [...leafExtensions(), extension(sgx, sgxValue(seed), false)];
  const pck = certify(seed, "pck", "SIMULATED PCK", machine, authority);
  const signer = certify(seed, "signer", "SIMULATED TCB Signing", leafExtensions(), root);
  return { root, authority, pck, signer, attestation: deriveKey(seed, "attestation") };
}

/** Without `issuer`, the certificate is self-signed. */
function certify(
  seed: Uint8Array,
  role: string,
  commonName: string,
  extensions: x509.Extension[],
  issuer?: CertifiedKey,
): CertifiedKey {
  const key = deriveKey(seed, role);
  const name = nameOf(commonName);
  // The serial number must be positive and must not start with a zero.
  const serial = deriveBytes(seed, `serial ${role}`, 16);
  serial[0] = ((serial[0] ?? 0) & 0x3f) | 0x40;
  const tbsCertificate = new x509.TBSCertificate({
    version: x509.Version.v3,
    serialNumber: serial.buffer,
    signature: ecdsaSha256,
    issuer: issuer?.name ?? name,
    validity,
    subject: name,
    subjectPublicKeyInfo: new x509.SubjectPublicKeyInfo({
      algorithm: ecP256,
      subjectPublicKey: joinBytes(Uint8Array.of(4), key.point).buffer,
    }),
    extensions: new x509.Extensions(extensions),
  });
  const signatureValue = signatureOf(tbsCertificate, issuer?.key ?? key);
  const certificate = writeAsn1(
    new x509.Certificate({ tbsCertificate, signatureAlgorithm: ecdsaSha256, signatureValue }),
  );
  return { key, name, serial, certificate };
}

/** Times are in milliseconds since 1970. */
export function revocationList(
  issuer: CertifiedKey,
  revoked: readonly CertifiedKey[],
  thisUpdate: number,
  nextUpdate: number,
): Bytes {
  const entries = revoked.map(
    ({ serial }) =>
      new x509.RevokedCertificate({
        userCertificate: serial.buffer,
        revocationDate: new x509.Time(thisUpdate),
      }),
  );
  const tbsCertList = new x509.TBSCertList({
    version: x509.Version.v2,
    signature: ecdsaSha256,
    issuer: issuer.name,
    thisUpdate: new x509.Time(thisUpdate),
    nextUpdate: new x509.Time(nextUpdate),
    // RFC 5280, 5.1.2.6: an empty list is omitted.
    ...(entries.length > 0 && { revokedCertificates: entries }),
  });
  const signature = signatureOf(tbsCertList, issuer.key);
  return writeAsn1(
    new x509.CertificateList({ tbsCertList, signatureAlgorithm: ecdsaSha256, signature }),
  );
}

function signatureOf(body: object, key: SigningKey): ArrayBuffer {
  const signature = key.sign(writeAsn1(body));
  const pair = new EcdsaSignature();
  pair.r = BigInt(`0x${toHex(signature.subarray(0, 32))}`);
  pair.s = BigInt(`0x${toHex(signature.subarray(32))}`);
  return writeAsn1(pair).buffer;
}

function nameOf(commonName: string): x509.Name {
  const value = new x509.AttributeValue({ utf8String: commonName });
  const attribute = new x509.AttributeTypeAndValue({ type: "2.5.4.3", value });
  return new x509.Name([new x509.RelativeDistinguishedName([attribute])]);
}

function extension(extnID: string, value: object, critical = true): x509.Extension {
  return new x509.Extension({ extnID, critical, extnValue: new OctetString(writeAsn1(value)) });
}

/** `pathLength`: maximum number of intermediate authorities. */
function authorityExtensions(pathLength: number): x509.Extension[] {
  const usage = new x509.KeyUsage(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign);
  return [
    extension(
      x509.id_ce_basicConstraints,
      new x509.BasicConstraints({ cA: true, pathLenConstraint: pathLength }),
    ),
    extension(x509.id_ce_keyUsage, usage),
  ];
}

function leafExtensions(): x509.Extension[] {
  return [extension(x509.id_ce_keyUsage, new x509.KeyUsage(x509.KeyUsageFlags.digitalSignature))];
}

/** The SGX extension of Intel's certificates: PPID, TCB, PCE id, FMSPC and type. */
function sgxValue(seed: Uint8Array): Fields {
  const { fmspc, pceId, pceSvn, cpuSvn } = simulatedMachine;
  const integer = (value: number): object => AsnIntegerConverter.toASN(value);
  const components = [...cpuSvn].map((svn, at) => field(`2.${at + 1}`, integer(svn)));
  const tcb = new Fields([
    ...components,
    field("2.17", integer(pceSvn)),
    field("2.18", new OctetString(cpuSvn)),
  ]);
  return new Fields([
    field("1", new OctetString(deriveBytes(seed, "ppid", 16))),
    field("2", tcb),
    field("3", new OctetString(Buffer.from(pceId, "hex"))),
    field("4", new OctetString(Buffer.from(fmspc, "hex"))),
    field("5", AsnEnumeratedConverter.toASN(0)),
  ]);
}

function field(id: string, value: object): x509.AttributeTypeAndValue {
  const anyValue = writeAsn1(value).buffer;
  return new x509.AttributeTypeAndValue({
    type: `${sgx}.${id}`,
    value: new x509.AttributeValue({ anyValue }),
  });
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

/** `name`: distinguishes the keys of one platform. */
export function deriveKey(seed: Uint8Array, name: string): SigningKey {
  const material = deriveBytes(seed, `key ${name}`, 48);
  const secret = mapHashToField(material, p256.Point.Fn.ORDER);
  return {
    point: Uint8Array.from(p256.getPublicKey(secret, false).subarray(1)),
    sign: (message) => Uint8Array.from(p256.sign(sha256(message), secret).toBytes("compact")),
  };
}

/** HKDF-SHA-256 without salt. */
function deriveBytes(seed: Uint8Array, name: string, length: number): Bytes {
  return new Uint8Array(hkdfSync("sha256", seed, "", `sluice simulated tdx ${name}`, length));
}
