/** Starts metering on the journal of this gateway alone: the journal, the usage export and the usage reports. */
import type { Host, ServiceContext, ServiceHooks } from "sluice-gateway/plugin";
import type { Metering } from "sluice-gateway/services";
import { openUsageExport } from "./export/open.ts";
import { createJournalReports } from "./journal-reports.ts";
import { openMeter } from "./meter.ts";
import { exportOf, type Options } from "./options.ts";

export async function startEmbedded(
  options: Options,
  { clock, compute, log, metrics, store }: Host,
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
  const settings = exportOf(options);
  if (settings !== undefined) {
    keep(
      "export",
      () =>
        openUsageExport({ dataDir, settings, threads: compute.background, clock, log, metrics }),
      (usageExport) => usageExport.close(),
    );
  }
  return {
    service: {
      reserve: (principal, costMilliCu, about) => meter.reserve(principal, costMilliCu, about),
      reserveWithoutLimit: (principal, costMilliCu, about) =>
        meter.reserveWithoutLimit(principal, costMilliCu, about),
      purchasedLeft: (workspace) => meter.purchasedLeft(workspace),
      keyWindows: (key) => meter.keyWindows(key),
      workspaceUsage: (workspaceId) => meter.workspaceUsage(workspaceId),
      outageMs: undefined,
      usage: createJournalReports(dataDir, compute.background, log),
    },
    ready: () => ({ journal: meter.writable ? true : "not writable" }),
  };
}
