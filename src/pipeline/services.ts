/** What outlives a generation and every plugin's `host` draws on. */
import type { Fault, Position, UpstreamConfig } from "../config/config.ts";
import type { Accounts, Clock, Ledger, Log, Meter, Metrics } from "../plugin.ts";

export interface Services {
  readonly log: Log;
  readonly clock: Clock;
  readonly metrics: Metrics;
  readonly accounts: Accounts;
  readonly meter: Meter;
  openLedger(upstream: UpstreamConfig): Ledger & { readonly ready: boolean; close(): Promise<void> };
  fault(code: string, message: string, at: Position): Fault;
}
