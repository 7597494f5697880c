/** The ledger's metrics, except for the counters per method, which are in method-state.ts. */
import type { Counter, Metrics } from "sluice-gateway/plugin";
import type { AnswerCache } from "./cache.ts";
import type { NodeFailure } from "./node-pool.ts";

export interface LedgerMetrics {
  readonly failures: Readonly<Record<NodeFailure, Counter>>;
  cache(cache: AnswerCache): void;
}

export function createLedgerMetrics(upstream: string, metrics: Metrics): LedgerMetrics {
  const failures = metrics.counter(
    "sluice_ledger_failures_total",
    "Node calls that no node answered, by reason.",
    ["upstream", "reason"],
  );
  const labels = { upstream };
  const bytes = metrics
    .gauge("sluice_ledger_cache_bytes", "Bytes in the immutable cache.", ["upstream"])
    .with(labels);
  const entries = metrics
    .gauge("sluice_ledger_cache_entries", "Answers in the immutable cache.", ["upstream"])
    .with(labels);
  const evictions = metrics
    .counter("sluice_ledger_cache_evictions_total", "Answers evicted to make room.", ["upstream"])
    .with(labels);
  let evicted = 0;
  return {
    failures: {
      unreachable: failures.with({ upstream, reason: "unreachable" }),
      timeout: failures.with({ upstream, reason: "timeout" }),
      garbage: failures.with({ upstream, reason: "garbage" }),
      aborted: failures.with({ upstream, reason: "aborted" }),
      disagreement: failures.with({ upstream, reason: "disagreement" }),
    },
    cache(cache) {
      bytes.set(cache.bytes);
      entries.set(cache.entries);
      if (cache.evictions > evicted) evictions.add(cache.evictions - evicted);
      evicted = cache.evictions;
    },
  };
}
