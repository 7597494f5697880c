/** What outlives a generation and every plugin's `host` draws on. */
import type { UpstreamConfig } from "../config/config.ts";
import type { Accounts, Clock, Ledger, Log, Meter, Metrics } from "../plugin.ts";

export interface Services {
  readonly log: Log;
  readonly clock: Clock;
  readonly metrics: Metrics;
  readonly accounts: Accounts;
  readonly meter: Meter;
  openLedger(
    upstream: UpstreamConfig,
  ): Ledger & { readonly ready: boolean; close(): Promise<void> };
}
