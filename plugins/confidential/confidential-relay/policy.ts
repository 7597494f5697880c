/**
 * The deployment's policy document. It describes the networks of pipeline.yaml and is signed with a key that is derived
 * from the deployment's secret.
 */
import type { Clock, Seal } from "sluice-gateway/plugin";
import type { SignedPolicy } from "sluice-gateway/services";
import { isObject } from "sluice-gateway/internal/toolkit";
import { readBytes } from "../protocol/encoding.ts";
import { nodeSuite, signerFrom } from "../protocol/node-crypto.ts";
import {
  readPolicyDocument,
  signPolicy,
  writePolicy,
  type NetworkPolicy,
} from "../protocol/policy-document.ts";
import type { Signer } from "../protocol/suite.ts";
import type { VerificationPolicy } from "../verify/policy.ts";

const validMs = 7 * 86_400_000;
const renewMs = 3_600_000;

/** Replicas with the same secret have the same key. */
export function policySigner(seal: Seal): Signer {
  return signerFrom(seal.key("confidential policy key"));
}

interface DescribedNetwork {
  readonly name: string;
  /** Undefined if the gateway decrypts the sessions. */
  readonly evidence: VerificationPolicy | undefined;
}

/**
 * Returns a function that signs the policy on the first call of each hour. The serial is the start of the current hour
 * in seconds since 1970. It never decreases, and it is the same on all replicas, whenever they started: clients refuse
 * a lower serial.
 */
export function createPolicy(
  networks: readonly DescribedNetwork[],
  signer: Signer,
  clock: Clock,
): () => Promise<SignedPolicy> {
  const described = Object.fromEntries(networks.map((one) => [one.name, describe(one)]));
  let signed: Promise<SignedPolicy> | undefined;
  /** The start of the hour of `signed`, in milliseconds since 1970. */
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
    // Names in pipeline.yaml are well-formed text, so a canonical form exists.
    if (bytes === undefined) throw new Error("the policy has no canonical form");
    signed = signPolicy(bytes, signer);
    return signed;
  };
}

/**
 * Checks a document that was signed elsewhere against the key that it contains. Returns a message if it is not valid.
 * Clients, which have pinned the key, check whether it is the right one.
 */
export async function readSignedPolicy(
  document: unknown,
  clock: Clock,
): Promise<SignedPolicy | string> {
  if (!isObject(document)) return "it is not a policy document";
  const { policy, sig, key: named } = document;
  const key = readBytes(named, 32);
  if (key === undefined) return "`key` is missing or is not 32 bytes in base64url";
  const read = await readPolicyDocument(nodeSuite, document, { key, now: clock.now() });
  if (typeof read === "string") return read;
  // `readPolicyDocument` has checked that all three are base64url.
  return { policy, sig, key: named } as SignedPolicy;
}

/** A document cannot express that any image is allowed, so it then lists none. */
function describe({ evidence }: DescribedNetwork): NetworkPolicy {
  if (evidence === undefined) return { termination: "gateway" };
  const { imageHashes, mrseam = [], advisories = [], minTcbEvaluation, sevSnp } = evidence;
  return {
    termination: "worker",
    worker: {
      image_hashes: imageHashes === "any" ? [] : imageHashes,
      mrseam,
      advisories,
      ...(minTcbEvaluation !== undefined && { min_tcb_evaluation: minTcbEvaluation }),
      ...(sevSnp?.minTcb !== undefined && {
        sev_snp: { min_tcb: sevSnp.minTcb, require_crl: sevSnp.requireCrl ?? true },
      }),
    },
  };
}
