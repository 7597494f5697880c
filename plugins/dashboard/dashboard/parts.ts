/** What the dashboard is made of: the running gateway, as far as an operator looks at it. */
import type { AccountsService } from "../../billing/accounts/accounts.ts";
import type { ComputePool } from "../../../src/compute/pool.ts";
import type { MeterService } from "../../billing/metering/meter.ts";
import type { RenderedMetrics } from "../../../src/metrics.ts";
import type { Activity } from "../../../src/pipeline/observe/activity.ts";
import type { Generation } from "../../../src/pipeline/load/generation.ts";
import type { Claims, Clock, Log, Seal } from "../../../src/plugin.ts";
import type { Readiness } from "../../../src/http/readiness.ts";

export interface DashboardParts {
  /** Names under which it may be opened beside addresses and localhost. */
  readonly hosts: readonly string[];
  readonly dataDir: string;
  readonly accounts: Pick<AccountsService, "identify" | "read" | "write">;
  readonly meter: Pick<MeterService, "keyWindows" | "workspaceUsage" | "purchasedLeft">;
  readonly metrics: Pick<RenderedMetrics, "read">;
  readonly activity: Activity;
  /** What became of the requests with this id, newest first. */
  readonly explain: (requestId: string) => readonly object[];
  /** The one that serves now. */
  readonly generation: () => Generation;
  /** Exchanges under way. */
  readonly running: () => number;
  /** How the last reload went, as /pipelines shows it. */
  readonly reload: () => object;
  readonly ready: () => Readiness;
  readonly seal: Seal;
  readonly claims: Claims;
  /** A thread for reports: adding up a month must not hold up requests. */
  readonly reports: Pick<ComputePool, "run">;
  readonly clock: Clock;
  readonly log: Log;
}
