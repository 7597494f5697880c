import type { Counter, Gauge, Metrics } from "sluice-gateway/plugin";

/** `attempt`: one attempt failed. `given up`: all attempts failed. `full`: too many alerts were waiting. */
export type AlertFailure = "attempt" | "given up" | "full";

export interface AlertMetrics {
  readonly sent: Counter;
  readonly waiting: Gauge;
  failed(reason: AlertFailure): Counter;
}

export function alertMetrics(metrics: Metrics): AlertMetrics {
  const failures = metrics.counter(
    "sluice_alerts_failed_total",
    "Alerts that were not accepted, by reason: one attempt failed, the alert was given up, or the queue was full.",
    ["reason"],
  );
  return {
    sent: metrics
      .counter("sluice_alerts_sent_total", "Alerts that the receiver has accepted.")
      .with({}),
    waiting: metrics.gauge("sluice_alerts_waiting", "Alerts that are not accepted yet.").with({}),
    failed: (reason) => failures.with({ reason }),
  };
}
