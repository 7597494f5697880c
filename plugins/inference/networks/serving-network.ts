import type {
  Clock,
  Counter,
  Log,
  Metrics,
  PluginStorage,
  Threads,
  UpstreamFailure,
} from "sluice-gateway/plugin";
import type { ModelOverride, NetworkKind, OpenNetwork } from "sluice-gateway/services";
import type { Affinity } from "./affinity.ts";
import type { CallMetrics } from "./call-metrics.ts";

export interface NetworkDeps {
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly storage: () => PluginStorage;
  /** The threads that serve, which share the load of workers and the homes of sessions. Undefined if there is one. */
  readonly threads?: Threads | undefined;
  /** The map stays the same until an override changes. */
  readonly overrides: (network: string) => ReadonlyMap<string, ModelOverride>;
  /** Undefined for OpenAI's API. */
  readonly kind?: NetworkKind | undefined;
}

export interface ServingNetwork extends OpenNetwork {
  readonly name: string;
  readonly deps: NetworkDeps;
  readonly callMetrics: CallMetrics;
  /** False while the configured rate is not known. No worker is offered then. */
  readonly isPriced: boolean;
  readonly countFailure: (failure: UpstreamFailure) => void;
  readonly affinity: Affinity;
  /** Counters of answers that were charged 0 because the price or the rate was missing. */
  readonly unpriced: { readonly price: Counter; readonly rate: Counter };
}
