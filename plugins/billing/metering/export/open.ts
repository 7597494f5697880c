/** Starts the usage export that pipeline.yaml configures. */
import { threadModule } from "sluice-gateway/package-files";
import type { Clock, ComputeThreads, Log, Metrics } from "sluice-gateway/plugin";
import type { UsageExportConfig } from "../options.ts";
import { readBatch, type BatchJob } from "./batch.ts";
import { ExportCursor } from "./cursor.ts";
import { Exporter } from "./exporter.ts";
import { exportMetrics } from "./metrics.ts";
import { send } from "./send.ts";

const batchModule = threadModule("plugins/billing/metering/export/batch");

/** The journal of `dataDir` must exist. Throws StoreError. */
export function openUsageExport(options: {
  readonly dataDir: string;
  readonly settings: UsageExportConfig;
  /** The threads that read the journal. Usage reports also use them, so a batch may wait up to 30 s for a report. */
  readonly threads: ComputeThreads;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
}): { close(): Promise<void> } {
  const { dataDir, settings, threads, clock, log, metrics } = options;
  const { url, headers, everyMs, batch, source, type, subject } = settings;
  const cursor = ExportCursor.open(dataDir);
  const closing = new AbortController();
  const exporter = new Exporter({
    cursor,
    async read(after, limit) {
      const input: BatchJob = { dataDir, after, limit, form: { source, type, subject } };
      const { signal } = closing;
      const done = await threads.run({ module: batchModule, input, transfer: [], signal });
      if (!done.ok) throw new Error(`cannot read the next charges: ${done.reason}`);
      return done.bytes && readBatch(done.bytes);
    },
    send: (events, signal) => send({ url, headers }, events, signal),
    batch,
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
