/**
 * Starts metering on the journal of this gateway: the journal, the usage export, the copy in PostgreSQL and the usage
 * reports.
 */
import type { Host, ServiceContext, ServiceHooks } from "sluice-gateway/plugin";
import type { Metering } from "sluice-gateway/services";
import { openDataFolder } from "sluice-gateway/store";
import { openUsageExport } from "./export/open.ts";
import { createJournalReports } from "./journal-reports.ts";
import { openMeter } from "./meter.ts";
import { exportOf, type Options } from "./options.ts";

/** The journal accepts charges without PostgreSQL, but a key that was revoked elsewhere must not stay valid for long. */
const localOutageMs = 60_000;

export async function startEmbedded(
  options: Options,
  { clock, compute, log, metrics, store, version }: Host,
  { keep }: ServiceContext,
): Promise<ServiceHooks<Metering>> {
  const dataDir = store.folder;
  const { postgres: database } = store;
  const { durability } = options.metering;
  // Without a database, the folder is open already.
  if (database !== undefined) {
    keep(
      "data folder",
      () => openDataFolder(dataDir),
      (folder) => folder[Symbol.dispose](),
    );
  }
  const meter = await keep(
    "journal",
    () => openMeter({ dataDir, durability, clock, log, metrics }),
    async (opening) => {
      const opened = await opening.catch(() => undefined);
      await opened?.close();
    },
  );
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
      outageMs: database === undefined ? undefined : localOutageMs,
      usage: createJournalReports(dataDir, compute.background, log),
    },
    ready: () => ({ journal: meter.writable ? true : "not writable" }),
  };
}
