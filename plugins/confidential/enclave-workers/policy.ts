/** What pipeline.yaml says of a network's evidence, as the verifier takes it. */
import type { EvidencePolicyConfig } from "../../../src/config/config.ts";
import { readEvidence } from "../verify/evidence.ts";
import type { VerificationPolicy } from "../verify/policy.ts";

/** `evidence`: parsed JSON from a worker. */
export type PolicyFor = (evidence: unknown) => VerificationPolicy;

export function policyOf(config: EvidencePolicyConfig): PolicyFor {
  const { kind, roots, imageHashes, mrseam, advisories, minTcbEvaluation, platforms } = config;
  const { sevSnp } = config;
  const policy: VerificationPolicy = {
    imageHashes,
    mrseam,
    advisories,
    ...(minTcbEvaluation !== undefined && { minTcbEvaluation }),
    ...(platforms !== undefined && { platforms }),
    ...(sevSnp !== undefined && { sevSnp }),
  };
  if (kind === "hardware") return () => policy;
  const simulated = { ...policy, allowSimulated: true, simulatedRoots: roots };
  if (roots.length > 0) return () => simulated;
  // Whoever accepts a simulation and names no root takes the one that it comes with.
  return (evidence) => ({ ...simulated, simulatedRoots: rootsWithin(evidence) });
}

/** The last certificate of a simulation's own chain, DER in base64. */
function rootsWithin(evidence: unknown): readonly string[] {
  const read = readEvidence(evidence);
  if (typeof read === "string" || read.teeType !== "simulated") return [];
  const { collateral } = read;
  if (typeof collateral !== "object" || collateral === null) return [];
  // An object from JSON; its member is looked at below.
  const { tcb_info_issuer_chain: chain } = collateral as Readonly<Record<string, unknown>>;
  if (typeof chain !== "string") return [];
  const last = chain.split("-----BEGIN CERTIFICATE-----").at(-1) ?? "";
  return [last.split("-----END")[0]?.replaceAll(/\s/g, "") ?? ""];
}
