/** The metrics of one node. Labels come from the configuration only. */
import { causeOf } from "sluice-gateway/internal/http";
import type { Metrics, UpstreamFailure } from "sluice-gateway/plugin";
import { upstreamMetrics } from "../ledger-metrics.ts";
import { exclusionReasons, type ExclusionReason } from "./exclusion-reason.ts";

const latencyBuckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];

export type NodeMetrics = ReturnType<typeof nodeMetrics>;

export function nodeMetrics(metrics: Metrics, upstream: string, node: string) {
  const labels = ["upstream", "node"] as const;
  const of = { upstream, node };
  const gauge = (name: string, help: string, isSameInThreads: boolean) =>
    metrics.gauge(name, help, labels, { isSameInThreads }).with(of);
  const failed = metrics.counter(
    "sluice_ledger_node_failures_total",
    "Calls that a node did not answer, by cause.",
    [...labels, "cause"],
  );
  const ejections = metrics.counter(
    "sluice_ledger_node_ejections_total",
    "Ejections of a node from the pool, by reason.",
    [...labels, "reason"],
  );
  const byReason = new Map(
    exclusionReasons.map((reason) => [reason, ejections.with({ ...of, reason })]),
  );
  const gauges = {
    up: gauge("sluice_ledger_node_up", "1 while the node is usable, else 0.", true),
    inFlight: gauge(
      "sluice_ledger_node_in_flight",
      "Requests in flight at the node, sampled every second.",
      false,
    ),
    oldestState: gauge(
      "sluice_ledger_node_oldest_state",
      "Number of the oldest block whose state the node has. 0 for an archive node.",
      true,
    ),
  };
  return {
    ...gauges,
    /** Time from sending a call to its answer. */
    seconds: metrics
      .histogram("sluice_ledger_node_seconds", "Response time of a node.", latencyBuckets, labels)
      .with(of),
    failed: (failure: UpstreamFailure) => failed.with({ ...of, cause: causeOf(failure) }).add(1),
    ejected: (reason: ExclusionReason) => byReason.get(reason)?.add(1),
    close: () => Object.values(gauges).forEach((each) => each.remove()),
  };
}

export type PoolMetrics = ReturnType<typeof poolMetrics>;

export function poolMetrics(metrics: Metrics, upstream: string) {
  const hedges = metrics.counter(
    "sluice_ledger_hedges_total",
    "Slow reads that were also sent to a second node, by outcome: `won` if its answer came first, else `lost`.",
    ["upstream", "outcome"],
  );
  const byOutcome = {
    won: hedges.with({ upstream, outcome: "won" }),
    lost: hedges.with({ upstream, outcome: "lost" }),
  };
  const disagreements = upstreamMetrics(upstream, metrics).counter(
    "sluice_ledger_disagreements_total",
    "Calls with a quorum to which two nodes gave different answers.",
  );
  return {
    /** Called when a hedged read has its answer. `won`: the second node was faster. */
    hedged: (outcome: "won" | "lost") => byOutcome[outcome].add(1),
    disagreed: () => disagreements.add(1),
  };
}
