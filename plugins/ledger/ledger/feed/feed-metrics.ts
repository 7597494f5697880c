/** The metrics of the subscriptions at the nodes. */
import type { Counter, Gauge, Metrics } from "sluice-gateway/plugin";

export interface FeedMetrics {
  readonly subscriptions: Gauge;
  readonly moves: Counter;
}

export function feedMetrics(upstream: string, metrics: Metrics): FeedMetrics {
  const labels = { upstream };
  return {
    subscriptions: metrics
      .gauge(
        "sluice_ledger_node_subscriptions",
        "Subscriptions at the node, which clients share.",
        ["upstream"],
      )
      .with(labels),
    moves: metrics
      .counter(
        "sluice_ledger_subscription_moves_total",
        "Moves of all subscriptions to another node, or to the same node on a new connection.",
        ["upstream"],
      )
      .with(labels),
  };
}
