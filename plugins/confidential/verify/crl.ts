/**
 * Certificate revocation lists (RFC 5280, 5). A list that is missing, malformed, from another issuer or out of date is
 * a failure.
 */
import { toHex } from "./binary-text.ts";
import type { Bytes } from "./binary-text.ts";
import { readExtensions, readSigned } from "./certificate.ts";
import type { Certificate, Signed } from "./certificate.ts";
import { derIntegerHex, derTags, derTime, readDer } from "./der.ts";
import type { DerNode } from "./der.ts";
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
 * Reads a revocation list. Undefined unless it has version 2, a next update and no critical extension. Critical
 * extensions mark lists that cover only a part of the certificates.
 */
export function readRevocationList(der: Bytes): RevocationList | undefined {
  const outer = readDer(der);
  const signed = outer && readSigned(outer);
  const body = outer?.children[0];
  if (signed === undefined || body === undefined) return undefined;
  const [version, algorithm, issuer, thisUpdate, nextUpdate, ...rest] = body.children;
  if (version === undefined || toHex(version.raw) !== "020101") return undefined;
  if (algorithm === undefined || toHex(algorithm.raw) !== signed.algorithm) return undefined;
  const [from, until] = [derTime(thisUpdate), derTime(nextUpdate)];
  if (issuer === undefined || from === undefined || until === undefined) return undefined;
  const entries = rest[0]?.tag === derTags.sequence ? rest.shift() : undefined;
  const revoked = readRevoked(entries?.children ?? []);
  const extensions = rest[0]?.tag === 0xa0 ? rest.shift() : undefined;
  if (revoked === undefined || rest.length > 0 || !areOptional(extensions?.children[0])) {
    return undefined;
  }
  return { signed, issuer: toHex(issuer.raw), thisUpdate: from, nextUpdate: until, revoked };
}

function readRevoked(entries: readonly DerNode[]): ReadonlySet<string> | undefined {
  const revoked = new Set<string>();
  for (const { children } of entries) {
    const serial = derIntegerHex(children[0]);
    if (serial === undefined || derTime(children[1]) === undefined || children.length > 3) {
      return undefined;
    }
    if (!areOptional(children[2])) return undefined;
    revoked.add(serial);
  }
  return revoked;
}

/** Returns false if an extension is critical. Such an extension changes the meaning of the list (RFC 5280, 5.2). */
function areOptional(list: DerNode | undefined): boolean {
  if (list === undefined) return true;
  const extensions = readExtensions(list);
  return extensions !== undefined && [...extensions.values()].every(({ critical }) => !critical);
}

/**
 * Returns the reason why `list` cannot be used for certificates of `issuer` at `now` (milliseconds since 1970).
 * Undefined if it can.
 */
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
