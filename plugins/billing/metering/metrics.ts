import type { Counter, Gauge, Histogram, Metrics } from "sluice-gateway/plugin";

const rowBuckets = [1, 2, 4, 8, 16, 32, 64, 128, 512, 2048];
const secondBuckets = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2];

export type MeterMetrics = ReturnType<typeof meterMetrics>;

export function meterMetrics(metrics: Metrics) {
  const { gauge, counter, histogram } = withoutLabels(metrics);
  return {
    writable: gauge("sluice_journal_writable", "1 while charges can be written to disk, else 0."),
    waitingRows: gauge(
      "sluice_journal_waiting_rows",
      "Records that are not on disk yet, sampled every second.",
    ),
    waitingSeconds: gauge(
      "sluice_journal_waiting_seconds",
      "Age of the oldest record that is not on disk yet, sampled every second.",
    ),
    commitRows: histogram(
      "sluice_journal_commit_rows",
      "Number of records per commit.",
      rowBuckets,
    ),
    commitSeconds: histogram(
      "sluice_journal_commit_seconds",
      "Duration of a commit, including the fsync.",
      secondBuckets,
    ),
    failures: counter("sluice_journal_failures_total", "Failed commits, including retries."),
    lost: counter(
      "sluice_lost_cu_milli_total",
      "Milli-CU whose charges were reversed because they could not be written to the journal.",
    ),
    expired: counter(
      "sluice_expired_intents_total",
      "Reservations of streams that were open at a crash and were released at the next start.",
    ),
    clockBehind: gauge(
      "sluice_clock_behind_seconds",
      "Time by which the clock is behind the last charge, sampled every second. 0 if it is not.",
    ),
    redated: counter(
      "sluice_redated_commits_total",
      "Commits of the journal that a clock dated into the future, and that were moved to the present.",
    ),
    ...chargeMetrics(metrics),
  };
}

export type ChargeMetrics = ReturnType<typeof chargeMetrics>;

function chargeMetrics(metrics: Metrics) {
  return {
    charged: bySurface(metrics, "sluice_charged_cu_milli_total", "Milli-CU charged, by surface."),
    cut: bySurface(
      metrics,
      "sluice_cut_cu_milli_total",
      "Milli-CU by which charges exceeded their reservations. They were not charged.",
    ),
    openReservations: withoutLabels(metrics).gauge(
      "sluice_reservations_open",
      "Reservations that are neither settled nor released, sampled every second.",
    ),
  };
}

export function withoutLabels(metrics: Metrics) {
  return {
    gauge: (name: string, help: string): Gauge => metrics.gauge(name, help).with({}),
    counter: (name: string, help: string): Counter => metrics.counter(name, help).with({}),
    histogram: (name: string, help: string, buckets: readonly number[]): Histogram =>
      metrics.histogram(name, help, buckets).with({}),
  };
}

/** Returns a function that finds the counter of a surface without building its labels again. */
function bySurface(metrics: Metrics, name: string, help: string): (surface: string) => Counter {
  const family = metrics.counter(name, help, ["surface"]);
  const known = new Map<string, Counter>();
  return (surface) => {
    let counter = known.get(surface);
    if (counter === undefined) known.set(surface, (counter = family.with({ surface })));
    return counter;
  };
}

export type LeaseMetrics = ReturnType<typeof leaseMetrics>;

export function leaseMetrics(metrics: Metrics) {
  const { gauge, counter, histogram } = withoutLabels(metrics);
  const replicas = metrics.gauge(
    "sluice_replicas",
    "Gateways that share the budgets of the PostgreSQL database. Silent: no message for 2 seconds.",
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
      "Times at which PostgreSQL had no message from this gateway for 10 seconds and gave its credit to others.",
    ),
    clockOffsetSeconds: gauge(
      "sluice_clock_offset_seconds",
      "Clock of PostgreSQL minus the clock of this gateway.",
    ),
    replicas: (state: "live" | "silent"): Gauge => replicas.with({ state }),
    strandedMilliCu: gauge(
      "sluice_stranded_cu_milli",
      "Milli-CU held by gateways without a message to PostgreSQL for 2 seconds. They are free after 10 seconds.",
    ),
  };
}
