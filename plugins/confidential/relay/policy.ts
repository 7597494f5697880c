/** The deployment's policy document: what pipeline.yaml says of its networks, signed with a key that its secret makes. */
import { createHmac } from "node:crypto";
import type { NetworkConfig } from "../../../src/config/config.ts";
import type { Clock } from "../../../src/services/clock.ts";
import type { SignedPolicy } from "../../../src/services/confidential.ts";
import { readBytes } from "../protocol/encoding.ts";
import { nodeSuite, signerFrom } from "../protocol/node-crypto.ts";
import {
  readPolicyDocument,
  signPolicy,
  writePolicy,
  type NetworkPolicy,
} from "../protocol/policy-document.ts";
import { isJsonObject } from "../protocol/strict-json.ts";
import type { Signer } from "../protocol/suite.ts";

/** A document is good for so long, and replaced well before. */
const validMs = 7 * 86_400_000;
const renewMs = 3_600_000;

/** The same for every replica with the same secret. */
export function policySigner(secret: string): Signer {
  return signerFrom(createHmac("sha256", secret).update("confidential policy key").digest());
}

/**
 * Signs when it is asked, and again with each hour. The serial is the hour that has begun, seconds since 1970: it never goes
 * back, and replicas that started at different moments serve the same one, since clients refuse a lower.
 */
export function createPolicy(
  networks: readonly NetworkConfig[],
  signer: Signer,
  clock: Clock,
): () => Promise<SignedPolicy> {
  const described = Object.fromEntries(networks.map((one) => [one.name, describe(one)]));
  let signed: Promise<SignedPolicy> | undefined;
  /** The beginning of its hour, milliseconds since 1970. */
  let signedAt = 0;
  return () => {
    const now = clock.now();
    const hour = now - (now % renewMs);
    if (signed !== undefined && hour === signedAt) return signed;
    signedAt = hour;
    const bytes = writePolicy({
      v: 1,
      serial: hour / 1000,
      issued_at: new Date(hour).toISOString(),
      expires_at: new Date(now + validMs).toISOString(),
      networks: described,
    });
    // Names from pipeline.yaml are well-formed text.
    if (bytes === undefined) throw new Error("the policy has no canonical form");
    signed = signPolicy(bytes, signer);
    return signed;
  };
}

/** The key of a document signed elsewhere is its own: whether it is the right one is for clients, who have pinned it. */
export async function readSignedPolicy(
  document: unknown,
  clock: Clock,
): Promise<SignedPolicy | string> {
  if (!isJsonObject(document)) return "it is no policy document";
  const { policy, sig, key: named } = document;
  const key = readBytes(named, 32);
  if (key === undefined) return "it names no key";
  const read = await readPolicyDocument(nodeSuite, document, { key, now: clock.now() });
  if (typeof read === "string") return read;
  // Read as base64url just now.
  return { policy, sig, key: named } as SignedPolicy;
}

/** A list of images that holds any cannot be signed: then nothing is vouched for. */
function describe({ kind, evidence }: NetworkConfig): NetworkPolicy {
  if (kind === "openai" || evidence === undefined) return { termination: "gateway" };
  const { imageHashes, mrseam, advisories, minTcbEvaluation, sevSnp } = evidence;
  return {
    termination: "worker",
    worker: {
      image_hashes: imageHashes === "any" ? [] : imageHashes,
      mrseam,
      advisories,
      ...(minTcbEvaluation !== undefined && { min_tcb_evaluation: minTcbEvaluation }),
      ...(sevSnp !== undefined && {
        sev_snp: { min_tcb: sevSnp.minTcb, require_crl: sevSnp.requireCrl },
      }),
    },
  };
}
