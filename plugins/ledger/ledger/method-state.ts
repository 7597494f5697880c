/** A whitelisted method with its cached answers, its calls in flight and its counters. */
import type { CallReport, Counter, Metrics } from "sluice-gateway/plugin";
import type { ChargeLine } from "sluice-gateway/services";
import type { AnswerCache, MethodAnswers } from "./cache.ts";
import type { JoinableCall } from "./call-listener.ts";
import type { Method } from "./whitelist.ts";

export interface MethodState {
  readonly method: Method;
  /** The charge for one answered call. Always the same array, to avoid allocations. */
  readonly lines: readonly Pick<ChargeLine, "method" | "costMilliCu">[];
  readonly reports: Readonly<Record<"result" | "error" | "failed" | "disagreement", CallReport>>;
  readonly answers: MethodAnswers;
  /** Calls in flight that others may join, by key. */
  readonly sharedCalls: Map<string, JoinableCall>;
  readonly fromCache: Counter;
  readonly fromSharedCall: Counter;
  readonly fromNode: Counter;
  readonly stored: Counter;
}

/** The method labels of the metrics are names of the whitelist, never text from a client. */
export function createMethodStates(
  upstream: string,
  methods: ReadonlyMap<string, Method>,
  cache: AnswerCache,
  metrics: Metrics,
): ReadonlyMap<string, MethodState> {
  const calls = metrics.counter(
    "sluice_ledger_calls_total",
    "Node calls by the source of their answer: `cache`, `flight` (shared with an identical call in flight) or `node`.",
    ["upstream", "method", "source"],
  );
  const stored = metrics.counter(
    "sluice_ledger_cache_kept_total",
    "Answers of a node that were stored in the cache. They are the cache misses of cacheable calls.",
    ["upstream", "method"],
  );
  const sharedCalls = new Map<string, Map<string, JoinableCall>>();
  const states = new Map<string, MethodState>();
  for (const [name, method] of methods) {
    const { nodeName } = method;
    const shared = sharedCalls.get(nodeName) ?? new Map<string, JoinableCall>();
    sharedCalls.set(nodeName, shared);
    states.set(name, {
      method,
      lines: [{ method: name, costMilliCu: method.cuMilli }],
      reports: {
        result: { kind: "node", name, isListed: true },
        error: { kind: "node", name, isListed: true, code: "NODE_ERROR" },
        failed: { kind: "node", name, isListed: true, code: "UPSTREAM_ERROR" },
        disagreement: { kind: "node", name, isListed: true, code: "NODES_DISAGREE" },
      },
      answers: cache.answersOf(nodeName),
      sharedCalls: shared,
      fromCache: calls.with({ upstream, method: name, source: "cache" }),
      fromSharedCall: calls.with({ upstream, method: name, source: "flight" }),
      fromNode: calls.with({ upstream, method: name, source: "node" }),
      stored: stored.with({ upstream, method: name }),
    });
  }
  return states;
}
