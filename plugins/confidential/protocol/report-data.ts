/** What evidence binds (confidential-stream.md, 1.4), and the names of evidence. */
import type { Role } from "./hello.ts";
import { canonicalBytes } from "./canonical-json.ts";
import { utf8 } from "./encoding.ts";
import type { Suite } from "./suite.ts";
import { digestName } from "./handshake.ts";
import { toHex } from "../verify/binary-text.ts";
import type { Bytes } from "../verify/binary-text.ts";

export const reportDataBytes = 64;

/**
 * `CSTRM1RD`: report data that begins so is made for sessions only, and by nobody who is asked for a platform quote.
 */
const reservedPrefix = utf8("CSTRM1RD");

/** Whether a caller's own report data would pass for a session's. Then it must be refused. */
export function isReserved(reportData: Uint8Array): boolean {
  return reservedPrefix.every((byte, at) => byte === reportData[at]);
}

/**
 * The statement's canonical bytes. `nonce`: the 32 bytes of `hello`, for a quote made for it; undefined for a cached
 * one.
 */
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

/** The 64 bytes that a quote must carry for this keyset. */
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

/** `sha256:<hex>` over the canonical evidence; undefined when it has no canonical form. `evidence`: parsed JSON. */
export async function evidenceDigest(suite: Suite, evidence: unknown): Promise<string | undefined> {
  const bytes = canonicalBytes(evidence);
  return bytes === undefined ? undefined : digestName(suite, bytes);
}
