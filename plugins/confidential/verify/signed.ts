/**
 * The signed part of certificates and revocation lists. It is apart from certificate.ts, to whose types those of the
 * published package refer: users do not have the types of the package that reads them.
 */
import type { AlgorithmIdentifier } from "@peculiar/asn1-x509";
import { writeAsn1 } from "./asn1.ts";
import { toHex, type Bytes } from "./binary-text.ts";

/**
 * The algorithm is listed inside and outside the signed part, and both must be equal (RFC 5280, 4.1.1.2). Undefined if
 * they differ.
 */
export function readSigned(
  inner: AlgorithmIdentifier,
  outer: {
    readonly message: ArrayBuffer | undefined;
    readonly algorithm: AlgorithmIdentifier;
    readonly signature: ArrayBuffer;
  },
): { message: Bytes; algorithm: string; signature: Bytes } | undefined {
  const algorithm = toHex(writeAsn1(outer.algorithm));
  if (outer.message === undefined || toHex(writeAsn1(inner)) !== algorithm) return undefined;
  const [message, signature] = [new Uint8Array(outer.message), new Uint8Array(outer.signature)];
  return { message, algorithm, signature };
}
