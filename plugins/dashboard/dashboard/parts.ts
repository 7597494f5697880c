/** The parts of the running gateway that the dashboard shows. */
import type { AccountsService } from "../../billing/accounts/accounts.ts";
import type { ComputePool } from "../../../src/compute/pool.ts";
import type { MeterService } from "../../billing/metering/meter.ts";
import type { RenderedMetrics } from "../../../src/metrics.ts";
import type { Activity } from "../../../src/pipeline/observe/activity.ts";
import type { Generation } from "../../../src/pipeline/load/generation.ts";
import type { Claims, Clock, Log, Seal } from "../../../src/plugin.ts";
import type { Readiness } from "../../../src/http/readiness.ts";

export interface DashboardParts {
  /** Host names under which the dashboard may be opened, in addition to IP addresses and localhost. */
  readonly hosts: readonly string[];
  readonly dataDir: string;
  readonly accounts: Pick<AccountsService, "identify" | "read" | "write">;
  readonly meter: Pick<MeterService, "keyWindows" | "workspaceUsage" | "purchasedLeft">;
  readonly metrics: Pick<RenderedMetrics, "read">;
  readonly activity: Activity;
  /** Returns the explanations of the requests with this id, newest first. */
  readonly explain: (requestId: string) => readonly object[];
  /** Returns the current generation. */
  readonly generation: () => Generation;
  /** Returns the number of running exchanges. */
  readonly running: () => number;
  /** Returns the result of the last reload in the form of /pipelines. */
  readonly reload: () => object;
  readonly ready: () => Readiness;
  readonly seal: Seal;
  readonly claims: Claims;
  /** A thread for reports, so that adding up a month does not delay requests. */
  readonly reports: Pick<ComputePool, "run">;
  readonly clock: Clock;
  readonly log: Log;
}
