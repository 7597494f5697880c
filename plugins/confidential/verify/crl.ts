/**
 * Certificate revocation lists (RFC 5280, 5). A list that is missing, malformed, from another issuer or out of date is
 * a failure.
 */
import { CertificateList, Version, type Extension } from "@peculiar/asn1-x509";
import { octetsHex, readAsn1, writeAsn1 } from "./asn1.ts";
import { toHex, type Bytes } from "./binary-text.ts";
import type { Certificate, Signed } from "./certificate.ts";
import { readSigned } from "./signed.ts";
import { isSignedBy } from "./signature.ts";

export interface RevocationList {
  readonly signed: Signed;
  /** Hex of the name's DER. */
  readonly issuer: string;
  /** Milliseconds since 1970. */
  readonly thisUpdate: number;
  readonly nextUpdate: number;
  /** Serial numbers, as in `Certificate`. */
  readonly revoked: ReadonlySet<string>;
}

/**
 * Undefined unless the list has version 2, a next update and no critical extension. Critical extensions mark lists that
 * cover only a part of the certificates.
 */
export function readRevocationList(der: Bytes): RevocationList | undefined {
  const read = readAsn1(der, CertificateList);
  const body = read?.tbsCertList;
  if (read === undefined || body?.nextUpdate === undefined || body.version !== Version.v2)
    return undefined;
  const signed = readSigned(body.signature, {
    message: read.tbsCertListRaw,
    algorithm: read.signatureAlgorithm,
    signature: read.signature,
  });
  const entries = body.revokedCertificates ?? [];
  const extensions = entries.map(({ crlEntryExtensions }) => crlEntryExtensions);
  if (signed === undefined || ![body.crlExtensions, ...extensions].every(areOptional)) {
    return undefined;
  }
  return {
    signed,
    issuer: toHex(writeAsn1(body.issuer)),
    thisUpdate: body.thisUpdate.getTime().getTime(),
    nextUpdate: body.nextUpdate.getTime().getTime(),
    revoked: new Set(entries.map(({ userCertificate }) => octetsHex(userCertificate))),
  };
}

/** A critical extension changes the meaning of the list (RFC 5280, 5.2). */
function areOptional(extensions: readonly Extension[] = []): boolean {
  return extensions.every(({ critical }) => !critical);
}

/** Returns the reason why `list` cannot be used for certificates of `issuer`. `now`: milliseconds since 1970. */
export async function revocationListFault(
  list: RevocationList | undefined,
  issuer: Certificate | undefined,
  now: number,
): Promise<string | undefined> {
  if (list === undefined) return "the revocation list is missing or cannot be read";
  if (issuer === undefined)
    return "the revocation list cannot be verified, because its issuer is missing";
  if (list.issuer !== issuer.subject)
    return `the revocation list was not issued by "${issuer.commonName}"`;
  if (!(await isSignedBy(list.signed, issuer.publicKey))) {
    return `the revocation list is not signed by "${issuer.commonName}"`;
  }
  if (now < list.thisUpdate) return "the revocation list was issued in the future";
  return now < list.nextUpdate ? undefined : "the revocation list has expired";
}
