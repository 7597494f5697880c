/**
 * Finds the evidence of a handshake: included in the frame, known from an earlier session, or fetched by its digest.
 */
import { evidenceDigest } from "../protocol/report-data.ts";
import { maxTextBytes } from "../protocol/limits.ts";
import type { AttestationFrame } from "../protocol/text-frames.ts";
import { fetchJson } from "./fetch-json.ts";
import type { Settings } from "./options.ts";
import { webSuite } from "./web-crypto.ts";

export interface ResolvedEvidence {
  /** Parsed JSON, not verified yet. */
  readonly evidence: unknown;
  /** `sha256:<hex>` */
  readonly digest: string;
}

/**
 * Returns the evidence, or a text with the reason why there is none. If the frame has a digest, the evidence matches
 * it, so the server that it was fetched from need not be trusted.
 */
export async function resolveEvidence(
  frame: AttestationFrame,
  settings: Settings,
  signal: AbortSignal,
): Promise<ResolvedEvidence | string> {
  const { evidence, evidenceDigest: expected } = frame;
  const found =
    evidence === undefined && expected !== undefined
      ? await findEvidence(expected, settings, signal)
      : evidence;
  if (found === undefined) return "the evidence could not be fetched by its digest";
  const digest = await evidenceDigest(webSuite, found);
  if (digest === undefined) return "the evidence cannot be converted to canonical JSON";
  if (expected !== undefined && expected !== digest) {
    return "the evidence does not match the digest in the attestation frame";
  }
  return { evidence: found, digest };
}

async function findEvidence(
  digest: string,
  { base, memory, headers }: Settings,
  signal: AbortSignal,
): Promise<unknown> {
  const known = memory.evidence.get(digest);
  if (known !== undefined) return known;
  const url = `${base}/v1/confidential/evidence/${digest.slice("sha256:".length)}`;
  return fetchJson(url, maxTextBytes, { signal, ...(headers && { headers }) });
}
