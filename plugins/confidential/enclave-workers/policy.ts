import { isObject } from "sluice-gateway/internal/toolkit";
import { readEvidence } from "../verify/evidence.ts";
import type { VerificationPolicy } from "../verify/policy.ts";

/** `evidence`: parsed JSON from a worker. */
export type PolicyFor = (evidence: unknown) => VerificationPolicy;

/** Simulated evidence is checked against its own root if the network accepts it and has no roots. */
export function policyOf(policy: VerificationPolicy): PolicyFor {
  const { allowSimulated = false, simulatedRoots = [] } = policy;
  if (!allowSimulated || simulatedRoots.length > 0) return () => policy;
  return (evidence) => ({ ...policy, simulatedRoots: rootsWithin(evidence) });
}

/** The last certificate of a simulation's own chain, as DER in base64. */
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
