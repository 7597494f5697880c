/** The ledger's metrics, except for the counters per method, which are in method-state.ts. */
import type { Counter, Gauge, Metrics } from "sluice-gateway/plugin";
import type { AnswerCache } from "./cache.ts";
import type { NodeFailure } from "./node-pool.ts";

/** Returns functions that create metrics whose only label is `upstream`. */
export function upstreamMetrics(upstream: string, metrics: Metrics) {
  return {
    gauge: (name: string, help: string): Gauge =>
      metrics.gauge(name, help, ["upstream"]).with({ upstream }),
    counter: (name: string, help: string): Counter =>
      metrics.counter(name, help, ["upstream"]).with({ upstream }),
  };
}

export type LedgerMetrics = ReturnType<typeof createLedgerMetrics>;

export function createLedgerMetrics(upstream: string, metrics: Metrics) {
  const { gauge, counter } = upstreamMetrics(upstream, metrics);
  const failures = metrics.counter(
    "sluice_ledger_failures_total",
    "Node calls that no node answered, by reason.",
    ["upstream", "reason"],
  );
  const failure = (reason: NodeFailure): Counter => failures.with({ upstream, reason });
  const bytes = gauge("sluice_ledger_cache_bytes", "Bytes in the immutable cache.");
  const entries = gauge("sluice_ledger_cache_entries", "Answers in the immutable cache.");
  const evictions = counter("sluice_ledger_cache_evictions_total", "Answers evicted to make room.");
  let evicted = 0;
  return {
    failures: {
      unreachable: failure("unreachable"),
      timeout: failure("timeout"),
      garbage: failure("garbage"),
      aborted: failure("aborted"),
      disagreement: failure("disagreement"),
    } satisfies Record<NodeFailure, Counter>,
    cache(cache: AnswerCache): void {
      bytes.set(cache.bytes);
      entries.set(cache.entries);
      if (cache.evictions > evicted) evictions.add(cache.evictions - evicted);
      evicted = cache.evictions;
    },
  };
}
