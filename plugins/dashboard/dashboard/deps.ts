import type { SendRequest } from "sluice-gateway/internal/http";
import type { GatewayInfo, Host } from "sluice-gateway/plugin";
import type { Accounts, Metering } from "sluice-gateway/services";
import type { Attempts } from "./attempts.ts";
import type { HealthGateways } from "./health.ts";
import type { HistoryRecorder } from "./history/recorder.ts";
import type { LiveGateways } from "./live.ts";
import type { OidcOptions } from "./oidc/user.ts";
import type { WorkspaceRates } from "./rates.ts";

type FromHost = "environment" | "seal" | "claims" | "clock" | "log" | "store" | "version";

export interface DashboardDeps extends Pick<Host, FromHost> {
  readonly gateway: GatewayInfo;
  readonly liveGateways: LiveGateways;
  readonly healthGateways: HealthGateways;
  readonly accounts: Accounts;
  readonly metering: Metering;
  readonly history: HistoryRecorder;
  readonly attempts: Attempts;
  readonly workspaceRates: WorkspaceRates;
  /** Undefined if users can sign in with keys only. */
  readonly oidc: OidcAccess | undefined;
}

export interface OidcAccess {
  readonly options: OidcOptions;
  readonly send: SendRequest;
}
