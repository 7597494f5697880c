/** The parts of the gateway that the dashboard shows and changes. */
import type { RateLimiterMemory } from "rate-limiter-flexible";
import type { GatewayInfo, Host } from "../../../src/plugin.ts";
import type { AccountsService } from "../../billing/accounts/accounts.ts";
import type { MeterService } from "../../billing/metering/meter.ts";

type FromHost = "environment" | "store" | "compute" | "seal" | "claims" | "clock" | "log";

export interface DashboardParts extends Pick<Host, FromHost> {
  readonly gateway: GatewayInfo;
  readonly accounts: Pick<AccountsService, "identify" | "read" | "write" | "plan">;
  readonly meter: Pick<MeterService, "keyWindows" | "workspaceUsage" | "purchasedLeft">;
  /** Counts the attempts to sign in, per address. */
  readonly attempts: RateLimiterMemory;
}
