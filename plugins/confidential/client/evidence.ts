/** The evidence of a handshake: sent along, known from an earlier session, or fetched by its digest. */
import { evidenceDigest } from "../protocol/statement.ts";
import { maxTextBytes } from "../protocol/limits.ts";
import type { AttestationFrame } from "../protocol/text-frames.ts";
import { fetchJson } from "./fetch-json.ts";
import type { Settings } from "./options.ts";
import { webSuite } from "./web-crypto.ts";

export interface GivenEvidence {
  /** Parsed JSON, not looked at yet. */
  readonly evidence: unknown;
  /** `sha256:<hex>` */
  readonly digest: string;
}

/** Why there is none comes as text. Whoever served it, it is what the frame's digest names. */
export async function resolveEvidence(
  frame: AttestationFrame,
  settings: Settings,
  signal: AbortSignal,
): Promise<GivenEvidence | string> {
  const { evidence, evidenceDigest: named } = frame;
  const found =
    evidence === undefined && named !== undefined
      ? await findEvidence(named, settings, signal)
      : evidence;
  if (found === undefined) return "the evidence that the digest names is not to be had";
  const digest = await evidenceDigest(webSuite, found);
  if (digest === undefined) return "the evidence has no canonical form";
  if (named !== undefined && named !== digest) return "the evidence is not what the digest names";
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
