import { SubjectPublicKeyInfo } from "@peculiar/asn1-x509";
import { EcdsaSignature, readAsn1, writeAsn1 } from "./asn1.ts";
import { fromHex, joinBytes, toHex, type Bytes } from "./binary-text.ts";
import type { Signed } from "./certificate.ts";

/** AlgorithmIdentifiers in hex of their DER. An identifier with any other parameter is another algorithm. */
export const signatureAlgorithms = {
  /** ecdsa-with-SHA256 (RFC 5758), used by Intel. */
  ecdsaSha256: "300a06082a8648ce3d040302",
  /** RSASSA-PSS, SHA-384, MGF1 with SHA-384, 48 bytes of salt (RFC 4055), as AMD encodes it. */
  pssSha384:
    "304606092a864886f70d01010a3039a00f300d06096086480165030402020500" +
    "a11c301a06092a864886f70d010108300d06096086480165030402020500a203020130a303020101",
} as const;

/** The AlgorithmIdentifier at the start of a SubjectPublicKeyInfo, in hex. */
const keyAlgorithms = {
  p256: "301306072a8648ce3d020106082a8648ce3d030107",
  p384: "301006072a8648ce3d020106052b81040022",
  rsa: "300d06092a864886f70d0101010500",
} as const;

export type KeyKind = keyof typeof keyAlgorithms;

/** Returns the type of a key. Undefined if it is unknown. `publicKey`: SubjectPublicKeyInfo. */
export function keyKind(publicKey: Bytes): KeyKind | undefined {
  const algorithm = readAsn1(publicKey, SubjectPublicKeyInfo)?.algorithm;
  const hex = algorithm && toHex(writeAsn1(algorithm));
  if (hex === keyAlgorithms.p256) return "p256";
  if (hex === keyAlgorithms.p384) return "p384";
  return hex === keyAlgorithms.rsa ? "rsa" : undefined;
}

/** False also if the key or the signature cannot be read. `publicKey`: the signer's SubjectPublicKeyInfo. */
export async function isSignedBy(signed: Signed, publicKey: Bytes): Promise<boolean> {
  const kind = keyKind(publicKey);
  if (signed.algorithm === signatureAlgorithms.ecdsaSha256 && kind === "p256") {
    const signature = rawSignature(signed.signature, 32);
    return signature !== undefined && isEcdsa("p256", publicKey, signature, signed.message);
  }
  if (signed.algorithm === signatureAlgorithms.pssSha384 && kind === "rsa") {
    return isPss(publicKey, signed.signature, signed.message);
  }
  return false;
}

/**
 * Verifies ECDSA with SHA-256 (P-256) or SHA-384 (P-384). `publicKey`: SubjectPublicKeyInfo, or the coordinates X and
 * Y. `signature`: r and s, big endian, each as long as the field.
 */
export async function isEcdsa(
  kind: "p256" | "p384",
  publicKey: Bytes,
  signature: Bytes,
  message: Bytes,
): Promise<boolean> {
  const algorithm = { name: "ECDSA", namedCurve: kind === "p256" ? "P-256" : "P-384" };
  const hash = kind === "p256" ? "SHA-256" : "SHA-384";
  const isPoint = publicKey.length === (kind === "p256" ? 64 : 96);
  const encoded = isPoint ? joinBytes(Uint8Array.of(4), publicKey) : publicKey;
  try {
    const format = isPoint ? "raw" : "spki";
    const key = await crypto.subtle.importKey(format, encoded, algorithm, false, ["verify"]);
    return await crypto.subtle.verify({ name: "ECDSA", hash }, key, signature, message);
  } catch {
    // WebCrypto throws if the key is not a point of the curve.
    return false;
  }
}

async function isPss(publicKey: Bytes, signature: Bytes, message: Bytes): Promise<boolean> {
  try {
    const algorithm = { name: "RSA-PSS", hash: "SHA-384" };
    const key = await crypto.subtle.importKey("spki", publicKey, algorithm, false, ["verify"]);
    return await crypto.subtle.verify({ name: "RSA-PSS", saltLength: 48 }, key, signature, message);
  } catch {
    // WebCrypto throws if the modulus is invalid.
    return false;
  }
}

/** `der`: SEQUENCE { r, s }. Returns r and s with `width` bytes each. */
function rawSignature(der: Bytes, width: number): Bytes | undefined {
  const pair = readAsn1(der, EcdsaSignature);
  if (pair === undefined) return undefined;
  const [r, s] = [pair.r, pair.s].map((each) => each.toString(16).padStart(2 * width, "0"));
  // A negative number begins with a sign, which is not hex.
  const raw = fromHex(`${r}${s}`);
  return r?.length === 2 * width && raw?.length === 2 * width ? raw : undefined;
}
