/** What outlives a generation and every plugin's `host` draws on. */
import type { EvidenceService } from "../../../plugins/confidential/evidence/evidence-service.ts";
import type { NetworkConfig } from "../../config/config.ts";
import type { OpenNetwork, StoreOverrides } from "../../../plugins/inference/networks/networks.ts";
import type { Confidential, GatewayInfo, Host } from "../../plugin.ts";
import type { KeptParts } from "./kept-parts.ts";

/** Handed to every plugin as they are. */
type Shared =
  | "log"
  | "clock"
  | "metrics"
  | "accounts"
  | "workspaces"
  | "idempotency"
  | "meter"
  | "seal"
  | "claims"
  | "tickets"
  | "store"
  | "compute";

export interface Services extends Pick<Host, Shared> {
  readonly evidence: EvidenceService;
  /** True for `sluice check`: service plugins are asked for their `dryRun` instead of being started. */
  readonly dryRun?: boolean;
  openNetwork(config: NetworkConfig): OpenNetwork;
  /** Holds nothing that must be closed; its streams do. */
  openConfidential(
    networks: readonly OpenNetwork[],
    configured: readonly NetworkConfig[],
  ): Confidential;
  readonly storeOverrides: StoreOverrides;
  readonly parts: KeptParts;
  readonly gateway: GatewayInfo;
}
