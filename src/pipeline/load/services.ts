/** What outlives a generation and every plugin's `host` draws on. */
import type { GatewayInfo, Host } from "../../plugin.ts";
import type { KeptParts } from "./kept-parts.ts";

/** Handed to every plugin as they are. */
type Shared = "log" | "clock" | "metrics" | "seal" | "claims" | "store" | "compute";

export interface Services extends Pick<Host, Shared> {
  /** True for `sluice check`: service plugins are asked for their `dryRun` instead of being started. */
  readonly dryRun?: boolean;
  readonly parts: KeptParts;
  readonly gateway: GatewayInfo;
}
