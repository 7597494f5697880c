/** The report data that a session's evidence binds (confidential-stream.md, 1.4), and the digest of evidence. */
import type { Role } from "./hello.ts";
import { canonicalBytes, utf8 } from "./encoding.ts";
import type { Suite } from "./suite.ts";
import { digestName } from "./handshake.ts";
import { toHex, type Bytes } from "../verify/binary-text.ts";

export const reportDataBytes = 64;

/**
 * The first bytes of the report data of sessions. A service that creates platform quotes for callers must refuse report
 * data with this prefix.
 */
const reservedPrefix = utf8("CSTRM1RD");

export function isReserved(reportData: Uint8Array): boolean {
  return reservedPrefix.every((byte, at) => byte === reportData[at]);
}

/** `nonce`: the 32 bytes of `hello` if the quote is made for it. Undefined for a cached quote. */
export function writeStatement(
  keysetDigest: string,
  nonce: Uint8Array | undefined,
  role: Role,
): Bytes {
  const nonceHex = nonce === undefined ? null : toHex(nonce);
  const bytes = canonicalBytes({ keyset: keysetDigest, nonce: nonceHex, role, v: 1 });
  if (bytes === undefined) throw new TypeError("keysetDigest must be the name of a digest");
  return bytes;
}

export async function sessionReportData(
  suite: Suite,
  keysetDigest: string,
  nonce: Uint8Array | undefined,
  role: Role,
): Promise<Bytes> {
  const reportData = new Uint8Array(reportDataBytes);
  reportData.set(reservedPrefix);
  reportData.set(
    await suite.sha256(writeStatement(keysetDigest, nonce, role)),
    reservedPrefix.length,
  );
  return reportData;
}

/**
 * Returns `sha256:<hex>` of the canonical evidence, or undefined if it has no canonical form. `evidence`: parsed JSON.
 */
export async function evidenceDigest(suite: Suite, evidence: unknown): Promise<string | undefined> {
  const bytes = canonicalBytes(evidence);
  return bytes === undefined ? undefined : digestName(suite, bytes);
}
