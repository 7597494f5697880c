/** What outlives a generation and every plugin's `host` draws on. */
import type { UpstreamConfig } from "../config/config.ts";
import type { Accounts, Claims, Clock, Ledger, Log, Meter, Metrics, Seal } from "../plugin.ts";

export interface Services {
  readonly log: Log;
  readonly clock: Clock;
  readonly metrics: Metrics;
  readonly accounts: Accounts;
  readonly meter: Meter;
  readonly seal: Seal;
  readonly claims: Claims;
  openLedger(
    upstream: UpstreamConfig,
  ): Ledger & { readonly ready: boolean; close(): Promise<void> };
}
