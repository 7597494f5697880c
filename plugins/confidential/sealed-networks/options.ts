import type { GatewayInfo, Host, SectionFault } from "sluice-gateway/plugin";
import { pointerKey } from "sluice-gateway/internal/toolkit";
import type { ConnectOptions } from "../client/client.ts";
import { evidencePolicies, type Options as EvidenceOptions } from "../enclave-workers/options.ts";
import { simulatedAllowed } from "../evidence/simulated-allowed.ts";

export interface StreamConfig {
  readonly network?: string;
  readonly termination?: "worker" | "gateway";
  readonly policy_key?: string;
  readonly max_price_nano?: string;
}

export interface Options {
  readonly networks: Readonly<
    Record<
      string,
      (NonNullable<EvidenceOptions["networks"][string]> & { readonly stream: StreamConfig }) | null
    >
  >;
}

type Deployment = Pick<Host, "environment"> & Pick<GatewayInfo, "variable">;

export interface SealedConfig {
  readonly stream: StreamConfig;
  readonly accepted: Partial<ConnectOptions>;
}

export function sealedConfigs(options: Options): Map<string, SealedConfig> {
  return new Map(
    [...evidencePolicies(options, "sealed")].map(([name, policy]) => {
      const { stream = {}, evidence } = options.networks[name] ?? {};
      // The policy has a default for simulated evidence, which would replace the images of the policy document.
      const imageHashes = evidence?.image_hashes;
      const { policy_key: policyKey, termination } = stream;
      const { imageHashes: _, mrseam = [], advisories = [], ...rest } = policy;
      // Members that are not configured are missing, so that those of the policy document apply.
      const accepted = {
        ...rest,
        ...(policyKey !== undefined && { policyKey }),
        ...(termination !== undefined && { termination }),
        ...(imageHashes !== undefined && { imageHashes }),
        ...(mrseam.length > 0 && { mrseam }),
        ...(advisories.length > 0 && { advisories }),
      };
      return [name, { stream, accepted }];
    }),
  );
}

/** A network must pin something: otherwise nothing says which images may read its prompts. */
export function sealedFaults(options: Options, deployment: Deployment): SectionFault[] {
  return [...sealedConfigs(options)].flatMap(([name, { accepted }]) => {
    const { policyKey, imageHashes, allowSimulated = false, simulatedRoots = [] } = accepted;
    const isPinned =
      policyKey !== undefined || imageHashes !== undefined || simulatedRoots.length > 0;
    const problem =
      allowSimulated && !simulatedAllowed(deployment.environment, deployment)
        ? "accepts simulated evidence, which is not allowed in prod"
        : !isPinned &&
          "has neither `stream.policy_key` nor `image_hashes`, so it accepts no evidence";
    if (problem === false) return [];
    return {
      pointer: `/networks/${pointerKey(name)}/evidence`,
      code: "SLUICE_NETWORK_EVIDENCE",
      message: `networks.${name} ${problem}`,
    };
  });
}
