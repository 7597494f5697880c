/** Starts the usage export that pipeline.yaml configures. */
import { threadModule } from "sluice-gateway/package-files";
import { openComputePool } from "sluice-gateway/compute";
import type { Clock, Log, Metrics } from "sluice-gateway/plugin";
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
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
}): { close(): Promise<void> } {
  const { dataDir, settings, clock, log, metrics } = options;
  const { url, headers, everyMs, batch, source, type, subject } = settings;
  const cursor = ExportCursor.open(dataDir);
  // The export has its own thread, so that usage reports and billing do not delay each other.
  const pool = openComputePool({ clock, metrics, threads: 1 });
  const exporter = new Exporter({
    cursor,
    async read(after, limit) {
      const input: BatchJob = { dataDir, after, limit, form: { source, type, subject } };
      const done = await pool.run({ module: batchModule, input, transfer: [] });
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
      // The pool is closed at the same time, so that a read in progress ends.
      await Promise.all([pool.close(), exporter.close()]);
    },
  };
}
