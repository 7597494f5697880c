/** Metrics of the usage export. */
import type { Counter, Gauge, Metrics } from "sluice-gateway/plugin";

export type ExportFailure = "sink" | "refused" | "journal";

export interface ExportMetrics {
  readonly lagSeconds: Gauge;
  readonly stopped: Gauge;
  readonly delivered: Counter;
  failed(reason: ExportFailure): Counter;
}

export function exportMetrics(metrics: Metrics): ExportMetrics {
  const failures = metrics.counter(
    "sluice_usage_export_failures_total",
    "Failed attempts to deliver usage, by reason: the sink failed, the sink refused, or the journal could not be read.",
    ["reason"],
  );
  const byReason = {
    sink: failures.with({ reason: "sink" }),
    refused: failures.with({ reason: "refused" }),
    journal: failures.with({ reason: "journal" }),
  };
  return {
    lagSeconds: metrics
      .gauge(
        "sluice_usage_export_lag_seconds",
        "Age of the oldest charge that is not delivered. 0 if all charges are delivered.",
      )
      .with({}),
    stopped: metrics
      .gauge(
        "sluice_usage_export_stopped",
        "1 while delivery is stopped because the sink refuses the charges. An operator must act.",
      )
      .with({}),
    delivered: metrics
      .counter("sluice_usage_export_events_total", "Charges that the sink has accepted.")
      .with({}),
    failed: (reason) => byReason[reason],
  };
}
