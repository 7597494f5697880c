/** Converts the evidence policy of a network in pipeline.yaml to the form that the verifier uses. */
import { isObject } from "sluice-gateway/internal/toolkit";
import { readEvidence } from "../verify/evidence.ts";
import type { VerificationPolicy } from "../verify/policy.ts";
import type { EvidencePolicyConfig } from "./options.ts";

/** Returns the policy for one piece of evidence. `evidence`: parsed JSON from a worker. */
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
  // If simulations are accepted and no root is configured, the root in the simulation itself is used.
  return (evidence) => ({ ...simulated, simulatedRoots: rootsWithin(evidence) });
}

/** Returns the last certificate of a simulation's own chain, as DER in base64. */
function rootsWithin(evidence: unknown): readonly string[] {
  const read = readEvidence(evidence);
  if (typeof read === "string" || read.teeType !== "simulated") return [];
  const { collateral } = read;
  if (!isObject(collateral)) return [];
  const { tcb_info_issuer_chain: chain } = collateral;
  if (typeof chain !== "string") return [];
  const last = chain.split("-----BEGIN CERTIFICATE-----").at(-1) ?? "";
  return [last.split("-----END")[0]?.replaceAll(/\s/g, "") ?? ""];
}
