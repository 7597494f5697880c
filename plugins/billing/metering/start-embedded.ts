/**
 * Starts metering on the journal of this gateway: the journal, the usage export, the copy in PostgreSQL and the thread of
 * usage reports.
 */
import { openComputePool, type ComputePool } from "sluice-gateway/compute";
import { threadModule } from "sluice-gateway/package-files";
import type { Host, Log, ServiceContext, ServiceHooks } from "sluice-gateway/plugin";
import type { Metering, UsageReports, UsageSeries } from "sluice-gateway/services";
import { openUsageExport } from "./export/open.ts";
import { openMeter } from "./meter.ts";
import { exportOf, type Options } from "./options.ts";
import type { UsageSeriesJob } from "./usage-series.ts";

const seriesModule = threadModule("plugins/billing/metering/usage-series");

export async function startEmbedded(
  options: Options,
  { clock, log, metrics, store, version }: Host,
  { keep }: ServiceContext,
): Promise<ServiceHooks<Metering>> {
  const dataDir = store.folder;
  const { durability } = options.metering;
  const meter = await keep(
    "journal",
    () => openMeter({ dataDir, durability, clock, log, metrics }),
    async (opening) => {
      const opened = await opening.catch(() => undefined);
      await opened?.close();
    },
  );
  const { postgres: database } = store;
  if (database !== undefined) {
    const { openShipping } = await import("../shipping/open.ts");
    await keep(
      "shipping",
      () => openShipping({ dataDir, database, version, clock, log, metrics }),
      async (opening) => {
        const opened = await opening.catch(() => undefined);
        await opened?.close();
      },
    );
  }
  const settings = exportOf(options);
  if (settings !== undefined) {
    keep(
      "export",
      () => openUsageExport({ dataDir, settings, clock, log, metrics }),
      (usageExport) => usageExport.close(),
    );
  }
  // It has its own thread, so that an operator who looks at a month does not delay the report of a client.
  const threads = keep(
    "report threads",
    () => openComputePool({ clock, metrics, threads: 1, queue: 4, timeoutMs: 30_000 }),
    (pool) => pool.close(),
  );
  return {
    service: {
      reserve: (principal, costMilliCu, about) => meter.reserve(principal, costMilliCu, about),
      reserveWithoutLimit: (principal, costMilliCu, about) =>
        meter.reserveWithoutLimit(principal, costMilliCu, about),
      clearsAt: (key, scope, refusedAt) => meter.clearsAt(key, scope, refusedAt),
      purchasedLeft: (workspace) => meter.purchasedLeft(workspace),
      keyWindows: (key) => meter.keyWindows(key),
      workspaceUsage: (workspaceId) => meter.workspaceUsage(workspaceId),
      usage: createReports(dataDir, threads, log),
    },
    ready: () => ({ journal: meter.writable ? true : "not writable" }),
  };
}

function createReports(dataDir: string, threads: Pick<ComputePool, "run">, log: Log): UsageReports {
  return {
    async series(query) {
      const input: UsageSeriesJob = { dataDir, ...query };
      const done = await threads.run({ module: seriesModule, input, transfer: [] });
      // The result of the job, which `usageSeries` returns.
      if (done.ok) return JSON.parse(new TextDecoder().decode(done.bytes)) as UsageSeries;
      if (done.reason !== "aborted") {
        log.error({ reason: done.reason }, "cannot add up the usage over time");
      }
      return undefined;
    },
  };
}
