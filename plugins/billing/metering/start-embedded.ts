/** Starts metering on the journal of this gateway alone: the journal and the usage reports. */
import type {
  Host,
  Log,
  Metrics,
  ServiceContext,
  ServiceHooks,
  Store,
} from "sluice-gateway/plugin";
import type { Metering } from "sluice-gateway/services";
import { hasJournal } from "./journal-reader.ts";
import { chargesPath } from "./journal-schema.ts";
import { openMeter } from "./meter.ts";
import type { Options } from "./options.ts";
import { serveReports } from "./start-thread.ts";
import { createFolderReports } from "./usage/reports.ts";

export async function startEmbedded(
  options: Options,
  { clock, compute, log, metrics, store, threads }: Host,
  { keep }: ServiceContext,
): Promise<ServiceHooks<Metering>> {
  const dataDir = store.folder;
  const { durability } = options.metering;
  const meter = await keep(
    "journal",
    async () => {
      await reportMissing(store, log, metrics);
      return openMeter({ dataDir, durability, clock, log, metrics, threads });
    },
    async (opening) => {
      const opened = await opening.catch(() => undefined);
      await opened?.close();
    },
  );
  const service: Metering = {
    reserve: (principal, costMilliCu, about) => meter.reserve(principal, costMilliCu, about),
    reserveWithoutLimit: (principal, costMilliCu, about) =>
      meter.reserveWithoutLimit(principal, costMilliCu, about),
    purchasedLeft: (workspace) => meter.purchasedLeft(workspace),
    keyWindows: (key) => meter.keyWindows(key),
    workspaceUsage: (workspaceId) => meter.workspaceUsage(workspaceId),
    outageMs: undefined,
    usage: createFolderReports(dataDir, compute.background, log),
  };
  if (threads !== undefined) {
    keep(
      "reports of threads",
      () => serveReports(threads, service),
      (serving) => serving[Symbol.dispose](),
    );
  }
  return {
    service,
    ready: () => ({ journal: meter.writable ? true : "not writable" }),
  };
}

/** A journal that was lost resets all limits and all usage, which must not happen without a word. */
async function reportMissing(store: Store, log: Log, metrics: Metrics): Promise<void> {
  const dataDir = store.folder;
  const used = "SELECT 1 FROM sluice.key_use LIMIT 1";
  const isMissing = !hasJournal(dataDir) && (await store.sql("metering").query(used)).length > 0;
  metrics
    .gauge(
      "sluice_journal_missing",
      "1 if there was no journal at the start although keys had been used, else 0.",
    )
    .with({})
    .set(isMissing ? 1 : 0);
  if (!isMissing) return;
  log.error(
    { file: chargesPath(dataDir) },
    "the journal is missing although keys have been used: a new one is created, all limits are full again and earlier charges are missing; to keep them, stop the gateway and restore a backup",
  );
}
