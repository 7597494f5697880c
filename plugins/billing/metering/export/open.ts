import { randomUUID } from "node:crypto";
import { threadModule } from "sluice-gateway/internal/package-files";
import type { Host } from "sluice-gateway/plugin";
import type { UsageExportConfig } from "../options.ts";
import { readBatch, type BatchJob, makeBatch, type EventForm } from "./batch.ts";
import { openFileCursor, sharedCursor } from "./cursor.ts";
import { databasePages } from "./database-pages.ts";
import { Exporter, type ExporterDeps, exportMetrics } from "./exporter.ts";
import { send } from "./send.ts";

type ExportHost = Pick<Host, "clock" | "compute" | "log" | "metrics" | "store">;

/**
 * With PostgreSQL, every gateway runs an exporter, and one of them delivers the charges of all. Otherwise the journal
 * must exist. Throws StoreError.
 */
export function openUsageExport(
  host: ExportHost,
  { url, headers, everyMs, batch, ...form }: UsageExportConfig,
): { close(): Promise<void> } {
  const { clock, log, metrics, store } = host;
  const closing = new AbortController();
  const exporter = new Exporter({
    ...(store.postgres === undefined
      ? ofFolder(host, batch, form, closing.signal)
      : ofDatabase(host, batch, form)),
    send: (events, signal) => send({ url, headers }, events, signal),
    everyMs,
    clock,
    log,
    metrics: exportMetrics(metrics),
  });
  return {
    async close() {
      closing.abort();
      await exporter.close();
    },
  };
}

const batchModule = threadModule("plugins/billing/metering/export/batch");

type Charges = Pick<ExporterDeps, "cursor" | "read" | "batch">;

/** The charges are read in threads. Usage reports also use them, so a batch may wait up to 30 s for a report. */
function ofFolder(
  { compute, store }: ExportHost,
  batch: number,
  form: EventForm,
  signal: AbortSignal,
): Charges {
  const dataDir = store.folder;
  return {
    cursor: openFileCursor(dataDir),
    async read(range) {
      const input: BatchJob = { dataDir, form, ...range };
      const done = await compute.background.run({
        module: batchModule,
        input,
        transfer: [],
        signal,
      });
      if (!done.ok) throw new Error(`cannot read the next charges: ${done.reason}`);
      return done.bytes && readBatch(done.bytes);
    },
    batch,
  };
}

/** Maximum number of charges in a batch that is created on the main thread. */
const maxBatch = 1_000;

function ofDatabase({ store }: ExportHost, batch: number, form: EventForm): Charges {
  const { query } = store.sql("export");
  const pages = databasePages(query);
  return {
    cursor: sharedCursor(query, store.replicas?.id ?? randomUUID(), store.folder),
    async read(range) {
      const made = await makeBatch(pages, range, form);
      return made && { ...made, events: Buffer.from(made.events) };
    },
    batch: Math.min(batch, maxBatch),
  };
}
