import { sha256Hex } from "./binary-text.ts";
import type { Certificate } from "./certificate.ts";
import { isSignedBy } from "./signature.ts";

/** The trusted roots: lower-case hex of the SHA-256 of each root's DER. */
export type TrustAnchors = ReadonlySet<string>;

/**
 * Returns the reason why `chain` is not trusted at `now` (milliseconds since 1970). `chain`: from the leaf to the root,
 * which must be present. `length`: exact, which prevents a key of one role from being used in another role.
 */
export async function chainFault(
  chain: readonly Certificate[],
  length: number,
  anchors: TrustAnchors,
  now: number,
): Promise<string | undefined> {
  const root = chain.at(-1);
  if (root === undefined || chain.length !== length) {
    return `expected a chain of ${length} certificates, got ${chain.length}`;
  }
  if (!anchors.has(await sha256Hex(root.raw))) return `"${root.commonName}" is not a trusted root`;
  for (const [index, certificate] of chain.entries()) {
    const issuer = chain[index + 1] ?? certificate;
    const fault = await linkFault(certificate, issuer, now);
    if (fault !== undefined) return `"${certificate.commonName}" ${fault}`;
  }
  if (length > 1 && chain[0]?.isAuthority === true)
    return "the leaf certificate is a certificate authority";
  return undefined;
}

async function linkFault(
  certificate: Certificate,
  issuer: Certificate,
  now: number,
): Promise<string | undefined> {
  if (now < certificate.notBefore) return "is not valid yet";
  if (now > certificate.notAfter) return "has expired";
  if (certificate.issuer !== issuer.subject) return `was not issued by "${issuer.commonName}"`;
  if (!issuer.isAuthority)
    return `was issued by "${issuer.commonName}", which is not a certificate authority`;
  const isSigned = await isSignedBy(certificate.signed, issuer.publicKey);
  return isSigned ? undefined : `is not signed by "${issuer.commonName}"`;
}
