/** The resources behind the `host` of every plugin. They outlive generations. */
import type { GatewayInfo, Host, Threads } from "../../plugin.ts";
import type { HeldBytes } from "../../memory/held-bytes.ts";
import type { PluginEntries } from "../../store/plugin-entries.ts";
import type { KeptParts } from "./kept-parts.ts";

type Shared = "log" | "clock" | "metrics" | "seal" | "claims" | "store" | "compute";

export interface HostResources extends Pick<Host, Shared> {
  /** True for `sluice check`: service plugins are asked for their `dryRun` instead of being started. */
  readonly dryRun?: boolean;
  readonly entries: PluginEntries;
  /** Undefined if one thread serves all requests. */
  readonly threads?: Threads | undefined;
  readonly parts: KeptParts;
  readonly held: HeldBytes;
  readonly gateway: GatewayInfo;
}
