/** Starts the export of usage that pipeline.yaml asks for. */
import { openComputePool } from "../../../../src/compute/pool.ts";
import type { UsageExportConfig } from "../../../../src/config/config.ts";
import type { Clock } from "../../../../src/services/clock.ts";
import type { Log } from "../../../../src/services/log.ts";
import type { Metrics } from "../../../../src/services/metrics.ts";
import { readBatch, type BatchJob } from "./batch.ts";
import { ExportCursor } from "./cursor.ts";
import { Exporter } from "./exporter.ts";
import { exportMetrics } from "./metrics.ts";
import { send } from "./send.ts";

const batchModule = new URL(
  import.meta.url.endsWith(".ts") ? "./batch.ts" : "./batch.js",
  import.meta.url,
).href;

/** The journal of `dataDir` is there already. Throws StoreError. */
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
  // One thread of its own: whoever waits for a report does not wait for billing, nor the other way round.
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
      // First, so that a reading under way ends.
      await Promise.all([pool.close(), exporter.close()]);
    },
  };
}
