import type { GatewayInfo, Host, SectionFault } from "sluice-gateway/plugin";
import type { ProductionProblem } from "sluice-gateway/internal/module";
import { pointerKey } from "sluice-gateway/internal/toolkit";
import { simulatedAllowed } from "../evidence/simulated-allowed.ts";
import { snpPolicyOf, type SevSnpMember } from "../protocol/sev-snp-policy.ts";
import type { VerificationPolicy } from "../verify/policy.ts";

/** An entry of the section `networks` after validation. Undefined members could not be read. */
interface Entry {
  readonly kind?: string;
  readonly url?: string;
  readonly evidence: EvidenceEntry;
}

export interface Options {
  readonly networks: Readonly<Record<string, Entry | null>>;
}

interface EvidenceEntry {
  readonly kind: "hardware" | "simulated";
  readonly roots: readonly string[];
  readonly image_hashes?: "any" | readonly string[];
  readonly mrseam: readonly string[];
  readonly advisories: readonly string[];
  readonly min_tcb_evaluation?: number;
  readonly platforms?: readonly string[];
  readonly sev_snp?: SevSnpMember;
}

/** Returns the evidence policies of the enabled networks of a kind, by name of the network. */
export function evidencePolicies(
  { networks }: Options,
  kind = "enclave",
): Map<string, VerificationPolicy> {
  return new Map(
    Object.entries(networks).flatMap(([name, network]) =>
      network?.kind === kind && network.url !== undefined
        ? [[name, evidencePolicy(network.evidence)]]
        : [],
    ),
  );
}

/** Simulated evidence may have any image, because anyone who has the seed can create evidence for every image. */
function evidencePolicy(entry: EvidenceEntry): VerificationPolicy {
  const { kind, roots, mrseam, advisories, platforms, sev_snp: snp } = entry;
  const minTcbEvaluation = entry.min_tcb_evaluation;
  return {
    imageHashes: entry.image_hashes ?? (kind === "simulated" ? "any" : []),
    mrseam,
    advisories,
    ...(minTcbEvaluation !== undefined && { minTcbEvaluation }),
    ...(platforms !== undefined && { platforms }),
    ...(snp !== undefined && { sevSnp: snpPolicyOf(snp) }),
    ...(kind === "simulated" && { allowSimulated: true, simulatedRoots: roots }),
  };
}

export function evidenceFaults(
  options: Options,
  deployment: Pick<Host, "environment"> & Pick<GatewayInfo, "variable">,
): SectionFault[] {
  const isAllowed = simulatedAllowed(deployment.environment, deployment);
  return [...evidencePolicies(options)].flatMap(
    ([name, { allowSimulated = false, imageHashes }]) => {
      const problem = allowSimulated
        ? !isAllowed && "has simulated evidence, which is not allowed in prod"
        : imageHashes.length === 0 && "has no `image_hashes`, which list the accepted images";
      if (problem === false) return [];
      return {
        pointer: `/networks/${pointerKey(name)}/evidence`,
        code: "SLUICE_NETWORK_EVIDENCE",
        message: `networks.${name} ${problem}`,
      };
    },
  );
}

export function productionProblems(
  sections: Readonly<Record<string, unknown>>,
): ProductionProblem[] {
  // The section has been validated.
  const networks = (sections["networks"] ?? {}) as Options["networks"];
  return Object.entries(networks).flatMap(([name, entry]): ProductionProblem[] => {
    if (entry === null || entry.url === undefined) return [];
    const { kind, evidence } = entry;
    if (kind !== "enclave" && kind !== "sealed") return [];
    const isSimulated = evidence.kind === "simulated";
    if (!isSimulated && evidence.image_hashes !== "any") return [];
    const pointer = `/networks/${pointerKey(name)}/evidence`;
    const accepted = isSimulated ? "simulated evidence" : "any image";
    const message = `the network "${name}" accepts enclaves with ${accepted}`;
    return [{ code: "SLUICE_STRICT_EVIDENCE", pointer, message }];
  });
}
