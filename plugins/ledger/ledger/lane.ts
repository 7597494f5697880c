/** A whitelisted method with what the ledger keeps for it: its kept answers, its calls in flight, its counters. */
import type { CallFailureCode, CallReport } from "../../../src/called.ts";
import type { ChargeLine } from "../../../src/services/meter.ts";
import type { Counter, Metrics } from "../../../src/services/metrics.ts";
import type { AnswerCache, Room } from "./cache.ts";
import type { Flight } from "./flight.ts";
import type { Method } from "./whitelist.ts";

export interface Lane {
  readonly method: Method;
  /** What one answered call owes; always this same array. */
  readonly lines: readonly Pick<ChargeLine, "method" | "costMilli">[];
  /** Reports of one call by how it ended; always these same objects. */
  readonly reports: {
    readonly result: CallReport;
    readonly error: CallReport;
    readonly failed: CallReport;
  };
  readonly room: Room;
  /** Calls in flight that others may join, by key. */
  readonly flights: Map<string, Flight>;
  /** Calls by where their answer came from. */
  readonly fromCache: Counter;
  readonly fromFlight: Counter;
  readonly fromNode: Counter;
  /** Answers that were kept. */
  readonly kept: Counter;
}

const nodeError: CallFailureCode = "NODE_ERROR";
const upstreamError: CallFailureCode = "UPSTREAM_ERROR";

/** Lanes by the client's name of the method. Names of the whitelist are the only label values: never a client's. */
export function createLanes(
  upstream: string,
  methods: ReadonlyMap<string, Method>,
  cache: AnswerCache,
  metrics: Metrics,
): ReadonlyMap<string, Lane> {
  const calls = metrics.counter(
    "sluice_ledger_calls_total",
    "Node calls by the source of their answer: `cache`, `flight` (shared with an identical call in flight) or `node`.",
    ["upstream", "method", "source"],
  );
  const kept = metrics.counter(
    "sluice_ledger_cache_kept_total",
    "Answers of a node that were stored in the cache. They are the cache misses of cacheable calls.",
    ["upstream", "method"],
  );
  const flights = new Map<string, Map<string, Flight>>();
  const lanes = new Map<string, Lane>();
  for (const [name, method] of methods) {
    const { nodeName } = method;
    const shared = flights.get(nodeName) ?? new Map<string, Flight>();
    flights.set(nodeName, shared);
    lanes.set(name, {
      method,
      lines: [{ method: name, costMilli: method.cuMilli }],
      reports: {
        result: { kind: "node", name, isListed: true },
        error: { kind: "node", name, isListed: true, code: nodeError },
        failed: { kind: "node", name, isListed: true, code: upstreamError },
      },
      room: cache.room(nodeName),
      flights: shared,
      fromCache: calls.with({ upstream, method: name, source: "cache" }),
      fromFlight: calls.with({ upstream, method: name, source: "flight" }),
      fromNode: calls.with({ upstream, method: name, source: "node" }),
      kept: kept.with({ upstream, method: name }),
    });
  }
  return lanes;
}
