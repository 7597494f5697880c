/** What outlives a generation and every plugin's `host` draws on. */
import type { EvidenceService } from "../confidential/evidence/evidence-service.ts";
import type { NetworkConfig, UpstreamConfig } from "../config/config.ts";
import type { OpenNetwork, StoreOverrides } from "../inference/networks.ts";
import type {
  Accounts,
  Claims,
  Clock,
  Confidential,
  Decoder,
  Idempotency,
  Ledger,
  Log,
  Meter,
  Metrics,
  Seal,
  Tickets,
  Workspaces,
} from "../plugin.ts";

export interface Services {
  readonly log: Log;
  readonly clock: Clock;
  readonly metrics: Metrics;
  readonly accounts: Accounts;
  readonly workspaces: Workspaces;
  readonly idempotency: Idempotency;
  readonly meter: Meter;
  readonly seal: Seal;
  readonly claims: Claims;
  readonly tickets: Tickets;
  readonly evidence: EvidenceService;
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
