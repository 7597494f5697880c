import type { Counter, Metrics } from "../contract/metrics.ts";

/** Returns a function that returns the counter of a lane, which is the purpose of a round trip. */
export function countRoundTrips(
  metrics: Metrics,
  store: "postgres" | "redis",
): (lane: string) => Counter {
  const family = metrics.counter(
    "sluice_store_round_trips_total",
    "Statements sent to a shared store, by store and purpose.",
    ["store", "lane"],
  );
  const known = new Map<string, Counter>();
  return (lane) => {
    const counter = known.get(lane) ?? family.with({ store, lane });
    known.set(lane, counter);
    return counter;
  };
}
