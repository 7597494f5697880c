/** What outlives a generation and every plugin's `host` draws on. */
import type { EvidenceService } from "../../../plugins/confidential/evidence/evidence-service.ts";
import type { NetworkConfig, UpstreamConfig } from "../../config/config.ts";
import type { OpenNetwork, StoreOverrides } from "../../../plugins/inference/networks/networks.ts";
import type { Confidential, Decoder, Host, Ledger } from "../../plugin.ts";

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
  | "tickets";

export interface Services extends Pick<Host, Shared> {
  readonly evidence: EvidenceService;
  /** True for `sluice check`: service plugins are asked for their `dryRun` instead of being started. */
  readonly dryRun?: boolean;
  openLedger(upstream: UpstreamConfig): Ledger & {
    readonly ready: boolean;
    /** Resolves when it is known which nodes are usable. Absent: there is nothing to wait for. */
    readonly settled?: Promise<void>;
    close(): Promise<void>;
  };
  openNetwork(config: NetworkConfig): OpenNetwork;
  /** Holds nothing that must be closed; its streams do. */
  openConfidential(
    networks: readonly OpenNetwork[],
    configured: readonly NetworkConfig[],
  ): Confidential;
  readonly storeOverrides: StoreOverrides;
  /** Holds nothing that must be closed. */
  openDecoder(ledger: Ledger): Decoder;
}
