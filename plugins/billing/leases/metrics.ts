/** Metrics of leased credit. */
import type { Counter, Gauge, Histogram, Metrics } from "sluice-gateway/plugin";
import { chargeMetrics, withoutLabels, type ChargeMetrics } from "../metering/metrics.ts";

export interface LeaseMetrics extends ChargeMetrics {
  readonly batchRows: Histogram;
  readonly postSeconds: Histogram;
  readonly wentBack: Counter;
  readonly waits: Counter;
  readonly slackMilliCu: Gauge;
  readonly reservedMilliCu: Gauge;
  readonly scopes: Gauge;
  readonly queuedCharges: Gauge;
  readonly recalls: Counter;
  readonly fenced: Counter;
  readonly clockOffsetSeconds: Gauge;
  replicas(state: "live" | "silent"): Gauge;
  readonly strandedMilliCu: Gauge;
}

export function leaseMetrics(metrics: Metrics): LeaseMetrics {
  const { gauge, counter, histogram } = withoutLabels(metrics);
  const replicas = metrics.gauge(
    "sluice_replicas",
    "Gateways that share the budgets of the PostgreSQL database. Silent: not heard for 2 seconds.",
    ["state"],
  );
  return {
    ...chargeMetrics(metrics),
    batchRows: histogram(
      "sluice_post_batch_rows",
      "Charges per batch sent to PostgreSQL.",
      [1, 4, 16, 64, 256, 1024, 4096],
    ),
    postSeconds: histogram(
      "sluice_post_seconds",
      "Time until PostgreSQL has committed a batch of charges.",
      [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 2, 10],
    ),
    wentBack: counter(
      "sluice_store_went_back_total",
      "Times at which PostgreSQL had lost charges that it had committed. They are sent again.",
    ),
    waits: counter(
      "sluice_lease_waits_total",
      "Reservations that had to wait for credit from PostgreSQL.",
    ),
    slackMilliCu: gauge(
      "sluice_lease_slack_cu_milli",
      "Milli-CU that this gateway holds and has neither charged nor reserved.",
    ),
    reservedMilliCu: gauge(
      "sluice_lease_reserved_cu_milli",
      "Milli-CU that this gateway holds for requests that are running.",
    ),
    scopes: gauge("sluice_lease_scopes", "Workspaces and keys in which this gateway holds credit."),
    queuedCharges: gauge(
      "sluice_post_waiting_rows",
      "Charges that are not sent to PostgreSQL yet, sampled every second.",
    ),
    recalls: counter(
      "sluice_recalls_total",
      "Requests of other gateways to give back credit that is not reserved.",
    ),
    fenced: counter(
      "sluice_fenced_total",
      "Times at which PostgreSQL had not heard from this gateway for 10 seconds and gave its credit to others.",
    ),
    clockOffsetSeconds: gauge(
      "sluice_clock_offset_seconds",
      "Clock of PostgreSQL minus the clock of this gateway.",
    ),
    replicas: (state) => replicas.with({ state }),
    strandedMilliCu: gauge(
      "sluice_stranded_cu_milli",
      "Milli-CU held by gateways that PostgreSQL has not heard from for 2 seconds. They are free after 10 seconds.",
    ),
  };
}
