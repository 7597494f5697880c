/** The metrics of the follows at the nodes. */
import type { Counter, Gauge, Metrics } from "sluice-gateway/plugin";

export interface FollowMetrics {
  readonly follows: Gauge;
  readonly clients: Gauge;
  readonly pinnedBlocks: Gauge;
  readonly stops: Counter;
}

export function followMetrics(upstream: string, metrics: Metrics): FollowMetrics {
  const labels = { upstream };
  const names = ["upstream"] as const;
  return {
    follows: metrics
      .gauge("sluice_ledger_node_follows", "Follows at the node, which clients share.", names)
      .with(labels),
    clients: metrics
      .gauge("sluice_ledger_follow_clients", "Open follows of clients.", names)
      .with(labels),
    pinnedBlocks: metrics
      .gauge("sluice_ledger_pinned_blocks", "Blocks that are pinned at the node.", names)
      .with(labels),
    stops: metrics
      .counter(
        "sluice_ledger_follow_stops_total",
        "Follows at the node that ended for all their clients.",
        names,
      )
      .with(labels),
  };
}
