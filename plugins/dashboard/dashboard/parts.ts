/** The parts of the gateway that the dashboard shows and changes. */
import type { RateLimiterMemory } from "rate-limiter-flexible";
import type { Accounts, GatewayInfo, Host, Metering } from "../../../src/plugin.ts";
import type { Activity } from "./activity.ts";

type FromHost = "environment" | "seal" | "claims" | "clock" | "log";

export interface DashboardParts extends Pick<Host, FromHost> {
  readonly gateway: GatewayInfo;
  readonly activity: Activity;
  readonly accounts: Accounts;
  readonly metering: Metering;
  /** Counts the attempts to sign in, per address. */
  readonly attempts: RateLimiterMemory;
}
