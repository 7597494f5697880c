/** Metrics of charges that are posted to PostgreSQL, and of charges in a journal. */
import type { Counter, Gauge, Histogram, Metrics } from "sluice-gateway/plugin";

/** The metrics of all code that posts charges. */
export interface PostMetrics {
  readonly batchRows: Histogram;
  readonly postSeconds: Histogram;
  readonly wentBack: Counter;
}

/** The metrics of a gateway with a journal (`local`). */
export interface ShippingMetrics {
  readonly lagSeconds: Gauge;
  readonly stopped: Gauge;
}

export function shippingMetrics(metrics: Metrics): ShippingMetrics {
  return {
    lagSeconds: metrics
      .gauge(
        "sluice_ship_lag_seconds",
        "Age of the oldest charge that is not in PostgreSQL. 0 if all charges are.",
      )
      .with({}),
    stopped: metrics
      .gauge(
        "sluice_ship_stopped",
        "1 while no charges are copied to PostgreSQL for a reason that an operator must remove.",
      )
      .with({}),
  };
}

export function postMetrics(metrics: Metrics): PostMetrics {
  const rowBuckets = [1, 4, 16, 64, 256, 1024, 4096];
  const secondBuckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 2, 10];
  return {
    batchRows: metrics
      .histogram("sluice_post_batch_rows", "Charges per batch sent to PostgreSQL.", rowBuckets)
      .with({}),
    postSeconds: metrics
      .histogram(
        "sluice_post_seconds",
        "Time until PostgreSQL has committed a batch of charges.",
        secondBuckets,
      )
      .with({}),
    wentBack: metrics
      .counter(
        "sluice_store_went_back_total",
        "Times at which PostgreSQL had lost charges that it had committed. They are sent again.",
      )
      .with({}),
  };
}
