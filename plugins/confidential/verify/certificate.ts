/** X.509 certificates (RFC 5280), limited to what Intel's and AMD's attestation chains need. */
import { fromBase64, toHex } from "./binary-text.ts";
import type { Bytes } from "./binary-text.ts";
import { derBitString, derIntegerHex, derObjectId, derTags, derTime, readDer } from "./der.ts";
import type { DerNode } from "./der.ts";

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

const objectIds = {
  commonName: "2.5.4.3",
  keyUsage: "2.5.29.15",
  basicConstraints: "2.5.29.19",
} as const;

/** RFC 5280, 4.2.1.3: keyCertSign is bit 5, counted from the most significant. */
const keyCertSign = 0x04;

/** Reads a certificate. Undefined unless it has version 3 and no critical extension that this file does not know. */
export function readCertificate(der: Bytes): Certificate | undefined {
  const outer = readDer(der);
  const signed = outer && readSigned(outer);
  const body = outer?.children[0];
  if (outer === undefined || signed === undefined || body?.children.length !== 8) return undefined;
  const [version, serial, algorithm, issuer, validity, subject, publicKey, wrapped] = body.children;
  if (version?.tag !== 0xa0 || toHex(version.content) !== "020102") return undefined;
  // The algorithm is listed inside and outside the signed part, and both must be equal (RFC 5280, 4.1.1.2).
  if (algorithm === undefined || toHex(algorithm.raw) !== signed.algorithm) return undefined;
  const number = derIntegerHex(serial);
  const [notBefore, notAfter] = (validity?.children ?? []).map(derTime);
  const extensions = wrapped?.tag === 0xa3 ? readExtensions(wrapped.children[0]) : undefined;
  if (number === undefined || notBefore === undefined || notAfter === undefined) return undefined;
  if (issuer === undefined || subject === undefined || publicKey === undefined) return undefined;
  if (extensions === undefined || !knowsCritical(extensions)) return undefined;
  return {
    raw: outer.raw,
    signed,
    serial: number,
    issuer: toHex(issuer.raw),
    subject: toHex(subject.raw),
    commonName: commonName(subject),
    notBefore,
    notAfter,
    publicKey: publicKey.raw,
    isAuthority: isAuthority(extensions),
    extensions: new Map([...extensions].map(([id, { value }]) => [id, value])),
  };
}

/** Reads the common structure of certificates and revocation lists: SEQUENCE { body, algorithm, signature }. */
export function readSigned(outer: DerNode): Signed | undefined {
  const [body, algorithm, bits] = outer.children;
  const signature = derBitString(bits);
  if (outer.tag !== derTags.sequence || outer.children.length !== 3) return undefined;
  if (body?.tag !== derTags.sequence || algorithm === undefined || signature === undefined) {
    return undefined;
  }
  return { message: body.raw, algorithm: toHex(algorithm.raw), signature };
}

export interface Extension {
  readonly critical: boolean;
  readonly value: Bytes;
}

/** Reads a list of extensions. Undefined if it is malformed or contains an extension twice. */
export function readExtensions(
  list: DerNode | undefined,
): ReadonlyMap<string, Extension> | undefined {
  if (list?.tag !== derTags.sequence) return undefined;
  const extensions = new Map<string, Extension>();
  for (const item of list.children) {
    const id = derObjectId(item.children[0]);
    const flag = item.children.length === 3 ? item.children[1] : undefined;
    const value = item.children.at(-1);
    if (id === undefined || value?.tag !== derTags.octetString || extensions.has(id)) {
      return undefined;
    }
    if (item.children.length > 3 || (flag !== undefined && flag.tag !== derTags.boolean)) {
      return undefined;
    }
    extensions.set(id, {
      critical: flag !== undefined && flag.content[0] !== 0,
      value: value.content,
    });
  }
  return extensions;
}

function knowsCritical(extensions: ReadonlyMap<string, Extension>): boolean {
  for (const [id, { critical }] of extensions) {
    if (critical && id !== objectIds.keyUsage && id !== objectIds.basicConstraints) return false;
  }
  return true;
}

/**
 * Returns true if the basic constraints mark an authority and the key usage, if present, allows signing certificates.
 */
function isAuthority(extensions: ReadonlyMap<string, Extension>): boolean {
  const constraints = extensions.get(objectIds.basicConstraints);
  const flag = constraints && readDer(constraints.value)?.children[0];
  if (flag?.tag !== derTags.boolean || flag.content[0] !== 0xff) return false;
  const usage = extensions.get(objectIds.keyUsage);
  if (usage === undefined) return true;
  const bits = readDer(usage.value);
  return bits?.tag === derTags.bitString && ((bits.content[1] ?? 0) & keyCertSign) !== 0;
}

/** Maximum length of a common name (RFC 5280, ub-common-name). */
const maxNameBytes = 64;

/** Returns the common name in printable ASCII. Empty if there is none. */
function commonName(name: DerNode): string {
  for (const set of name.children) {
    const [id, value] = set.children[0]?.children ?? [];
    if (derObjectId(id) === objectIds.commonName && value !== undefined) {
      const text = new TextDecoder().decode(value.content.subarray(0, maxNameBytes));
      // The name is printed in reports and terminals, and its author is not trusted.
      return text.replaceAll(/[^\x20-\x7e]/g, "?");
    }
  }
  return "";
}

const pemBlock = /-----BEGIN CERTIFICATE-----\n([A-Za-z0-9+/=\n]+)\n-----END CERTIFICATE-----\n?/y;

/**
 * Returns the certificates of a PEM text in order. Undefined if the text contains anything but such blocks and an
 * optional NUL at the end. Two different readers can therefore not see different chains.
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
