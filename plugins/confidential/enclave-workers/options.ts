/** The evidence policies of the networks of kind `enclave` in pipeline.yaml. */
import type { GatewayInfo, Host, SectionFault } from "sluice-gateway/plugin";
import { pointerKey } from "sluice-gateway/internal/toolkit";
import { simulatedAllowed } from "../evidence/simulated-allowed.ts";

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
  readonly sev_snp?: {
    readonly min_tcb: "any" | SnpMinimumsConfig;
    readonly require_crl: boolean;
  };
}

/** Conditions that the evidence of a network's enclaves must meet before they receive a request. */
export interface EvidencePolicyConfig {
  /** `simulated`: evidence without hardware, for development. */
  readonly kind: "hardware" | "simulated";
  /** Accepted test roots of simulated evidence, DER in base64. */
  readonly roots: readonly string[];
  /** Accepted SHA-256 hashes, in lower-case hex. */
  readonly imageHashes: readonly string[] | "any";
  /** Accepted TDX modules, in lower-case hex. If empty, the modules that Intel reports as up to date. */
  readonly mrseam: readonly string[];
  /** Advisories that are accepted on a platform that needs software hardening. */
  readonly advisories: readonly string[];
  /** Minimum `tcbEvaluationDataNumber` of TDX collateral. */
  readonly minTcbEvaluation: number | undefined;
  /** Accepted PPIDs or chip ids, in lower-case hex. Undefined if any machine is accepted. */
  readonly platforms: readonly string[] | undefined;
  /** Conditions for SEV-SNP evidence. Undefined if no SEV-SNP evidence is accepted. */
  readonly sevSnp: SevSnpConfig | undefined;
}

/** Conditions for SEV-SNP evidence. `any` and `false` disable a check. */
interface SevSnpConfig {
  /** Minimum security patch levels per product. */
  readonly minTcb: "any" | SnpMinimumsConfig;
  /** True if evidence must contain AMD's current revocation list. */
  readonly requireCrl: boolean;
}

type SnpPart = "fmc" | "bootloader" | "tee" | "snp" | "microcode";

type SnpMinimumsConfig = Readonly<
  Partial<Record<"Milan" | "Genoa" | "Turin", Readonly<Partial<Record<SnpPart, number>>>>>
>;

/** Returns the evidence policies of the enabled networks of a kind, by name of the network. */
export function evidencePolicies(
  { networks }: Options,
  kind = "enclave",
): Map<string, EvidencePolicyConfig> {
  return new Map(
    Object.entries(networks).flatMap(([name, network]) =>
      network?.kind === kind && network.url !== undefined
        ? [[name, evidencePolicy(network.evidence)]]
        : [],
    ),
  );
}

/** Simulated evidence may have any image, because anyone who has the seed can create evidence for every image. */
function evidencePolicy(entry: EvidenceEntry): EvidencePolicyConfig {
  const { kind, roots, mrseam, advisories, platforms, sev_snp: snp } = entry;
  return {
    kind,
    roots,
    imageHashes: entry.image_hashes ?? (kind === "simulated" ? "any" : []),
    mrseam,
    advisories,
    minTcbEvaluation: entry.min_tcb_evaluation,
    platforms,
    sevSnp: snp && { minTcb: snp.min_tcb, requireCrl: snp.require_crl },
  };
}

/** Checks rules that the schema cannot express. */
export function evidenceFaults(
  options: Options,
  deployment: Pick<Host, "environment"> & Pick<GatewayInfo, "variable">,
): SectionFault[] {
  const isAllowed = simulatedAllowed(deployment.environment, deployment);
  return [...evidencePolicies(options)].flatMap(([name, { kind, imageHashes }]) => {
    const problem =
      kind === "simulated"
        ? !isAllowed && "has simulated evidence, which is not allowed in prod"
        : imageHashes.length === 0 && "has no `image_hashes`, which list the accepted images";
    if (problem === false) return [];
    return {
      pointer: `/networks/${pointerKey(name)}/evidence`,
      code: "SLUICE_NETWORK_EVIDENCE",
      message: `networks.${name} ${problem}`,
    };
  });
}
