/** What pipeline.yaml says of a network's evidence, as the verifier takes it. */
import type { EvidencePolicyConfig } from "../../config/config.ts";
import type { VerificationPolicy } from "../../confidential/verify/policy.ts";

export function verificationPolicy(config: EvidencePolicyConfig): VerificationPolicy {
  const { kind, roots, imageHashes, mrseam, advisories, minTcbEvaluation, platforms } = config;
  return {
    imageHashes,
    mrseam,
    advisories,
    ...(minTcbEvaluation !== undefined && { minTcbEvaluation }),
    ...(platforms !== undefined && { platforms }),
    ...(kind === "simulated" && { allowSimulated: true, simulatedRoots: roots }),
  };
}
