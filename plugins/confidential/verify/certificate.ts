/** X.509 certificates (RFC 5280), limited to what Intel's and AMD's attestation chains need. */
import {
  BasicConstraints,
  Certificate as X509Certificate,
  id_ce_basicConstraints as basicConstraints,
  id_ce_keyUsage as keyUsage,
  KeyUsage,
  KeyUsageFlags,
  Version,
} from "@peculiar/asn1-x509";
import type { Extension, Name } from "@peculiar/asn1-x509";
import { octetsHex, readAsn1, writeAsn1 } from "./asn1.ts";
import { fromBase64, toHex, type Bytes } from "./binary-text.ts";
import { readSigned } from "./signed.ts";

/** Bytes with a signature that has not been verified yet. */
export interface Signed {
  readonly message: Bytes;
  /** Hex of the AlgorithmIdentifier. */
  readonly algorithm: string;
  readonly signature: Bytes;
}

export interface Certificate {
  readonly raw: Bytes;
  readonly signed: Signed;
  /** Hex of the INTEGER's octets. */
  readonly serial: string;
  /** Hex of the name's DER. Names are compared as bytes. */
  readonly issuer: string;
  readonly subject: string;
  readonly commonName: string;
  /** Milliseconds since 1970. */
  readonly notBefore: number;
  readonly notAfter: number;
  /** DER of the SubjectPublicKeyInfo. */
  readonly publicKey: Bytes;
  readonly isAuthority: boolean;
  /** Maps the object identifier to the octets inside the OCTET STRING. */
  readonly extensions: ReadonlyMap<string, Bytes>;
}

const commonNameId = "2.5.4.3";

/** Undefined unless the certificate has version 3 and no critical extension that this file does not know. */
export function readCertificate(der: Bytes): Certificate | undefined {
  const read = readAsn1(der, X509Certificate);
  const body = read?.tbsCertificate;
  if (read === undefined || body?.version !== Version.v3) return undefined;
  const { subject, validity } = body;
  const signed = readSigned(body.signature, {
    message: read.tbsCertificateRaw,
    algorithm: read.signatureAlgorithm,
    signature: read.signatureValue,
  });
  const extensions = readExtensions(body.extensions);
  if (signed === undefined || extensions === undefined || !knowsCritical(extensions)) {
    return undefined;
  }
  return {
    raw: der,
    signed,
    serial: octetsHex(body.serialNumber),
    issuer: toHex(writeAsn1(body.issuer)),
    subject: toHex(writeAsn1(subject)),
    commonName: commonName(subject),
    notBefore: validity.notBefore.getTime().getTime(),
    notAfter: validity.notAfter.getTime().getTime(),
    publicKey: writeAsn1(body.subjectPublicKeyInfo),
    isAuthority: isAuthority(extensions),
    extensions: new Map([...extensions].map(([id, { value }]) => [id, value])),
  };
}

interface ReadExtension {
  readonly critical: boolean;
  readonly value: Bytes;
}

/** Undefined if an extension occurs twice. */
function readExtensions(
  list: readonly Extension[] = [],
): ReadonlyMap<string, ReadExtension> | undefined {
  const extensions = new Map<string, ReadExtension>();
  for (const { extnID, critical, extnValue } of list) {
    extensions.set(extnID, { critical, value: new Uint8Array(extnValue.buffer) });
  }
  return extensions.size === list.length ? extensions : undefined;
}

function knowsCritical(extensions: ReadonlyMap<string, ReadExtension>): boolean {
  for (const [id, { critical }] of extensions) {
    if (critical && id !== keyUsage && id !== basicConstraints) return false;
  }
  return true;
}

function isAuthority(extensions: ReadonlyMap<string, ReadExtension>): boolean {
  const constraints = extensions.get(basicConstraints);
  if (constraints === undefined) return false;
  if (readAsn1(constraints.value, BasicConstraints)?.cA !== true) return false;
  const usage = extensions.get(keyUsage);
  if (usage === undefined) return true;
  const flags = readAsn1(usage.value, KeyUsage)?.toNumber() ?? 0;
  return (flags & KeyUsageFlags.keyCertSign) !== 0;
}

/** Maximum length of a common name (RFC 5280, ub-common-name). */
const maxNameLength = 64;

/** Returns the common name in printable ASCII. Empty if there is none. */
function commonName(name: Name): string {
  const attribute = [...name].map(([first]) => first).find((each) => each?.type === commonNameId);
  // The name is printed in reports and terminals, and its author is not trusted.
  const text = attribute?.value.toString() ?? "";
  return text.slice(0, maxNameLength).replaceAll(/[^\x20-\x7e]/g, "?");
}

const pemBlock = /-----BEGIN CERTIFICATE-----\n([A-Za-z0-9+/=\n]+)\n-----END CERTIFICATE-----\n?/y;

/**
 * Returns the certificates in order. Undefined if the text contains anything but their PEM blocks and an optional
 * NUL at the end. Two different readers can therefore not see different chains.
 */
export function readPem(text: string): readonly Certificate[] | undefined {
  const end = text.endsWith("\0") ? text.length - 1 : text.length;
  const certificates: Certificate[] = [];
  pemBlock.lastIndex = 0;
  while (pemBlock.lastIndex < end) {
    const body = pemBlock.exec(text)?.[1];
    const der = body === undefined ? undefined : fromBase64(body.replaceAll("\n", ""));
    const certificate = der && readCertificate(der);
    if (certificate === undefined) return undefined;
    certificates.push(certificate);
  }
  return certificates;
}
