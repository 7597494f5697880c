/** Collects the facts about the running gateway that plugins may read: the service `gateway`. */
import type { RenderedMetrics } from "../../base/metrics.ts";
import type {
  BackendStatus,
  FoundExchanges,
  GatewayInfo,
  PluginStatus,
  RouteStatus,
} from "../../plugin.ts";
import type { CompiledRoute } from "../run/compile.ts";
import { describeRoute } from "./describe.ts";
import type { Generation } from "./generation.ts";
import { withCounts } from "./loaded-plugins.ts";
import { routeOfLabel } from "../observe/method-label.ts";
import type { ExchangeObserver } from "../observe/record.ts";

export interface GatewayInfoDeps {
  readonly generation: () => Generation;
  readonly reload: () => object;
  readonly ready: () => {
    readonly ready: boolean;
    readonly checks: Readonly<Record<string, string>>;
  };
  readonly backends: () => readonly BackendStatus[];
  readonly exchanges: () => number;
  readonly origin: string;
  readonly explain: (requestId: string) => readonly object[];
  readonly explainEverywhere: (requestId: string) => Promise<FoundExchanges>;
  readonly metrics: Pick<RenderedMetrics, "read">;
}

/**
 * `observers`: the functions that are called for each exchange that has ended. `started`: returns undefined while the
 * first generation starts.
 */
export function gatewayInfo(
  variable: GatewayInfo["variable"],
  observers: Set<ExchangeObserver>,
  started: () => GatewayInfoDeps | undefined,
): GatewayInfo {
  return {
    variable,
    onSettled(observer) {
      observers.add(observer);
      return { [Symbol.dispose]: () => void observers.delete(observer) };
    },
    running() {
      const deps = started();
      if (deps === undefined) throw new Error("the gateway has not started yet");
      const { explain, explainEverywhere, metrics, origin } = deps;
      const generation = deps.generation();
      return {
        ...deps.ready(),
        generation: generation.number,
        reload: deps.reload(),
        file: { path: generation.config.file, text: generation.config.text },
        origin,
        explain,
        explainEverywhere,
        metric: (name) => metrics.read(name),
        get backends() {
          return deps.backends();
        },
        get exchanges() {
          return deps.exchanges();
        },
        get plugins() {
          return withCounts(generation.plugins, metrics);
        },
        get routes() {
          return routesOf(generation, deps.metrics);
        },
      };
    },
  };
}

function routesOf(
  { routes, unmatched }: Generation,
  metrics: GatewayInfoDeps["metrics"],
): RouteStatus[] {
  const described = [...routes, unmatched].map((route) => ({ route, ...describeRoute(route) }));
  const byPath = Map.groupBy(described, ({ path }) => path);
  const requests = new Map<object, Record<string, number>>();
  for (const { labels, value } of metrics.read("sluice_requests_total")) {
    const { route: path = "", method = "", status = "" } = labels;
    const owner = routeOfLabel(byPath.get(path) ?? [], method);
    if (owner === undefined) continue;
    const counts = requests.get(owner) ?? {};
    counts[status] = (counts[status] ?? 0) + value;
    requests.set(owner, counts);
  }
  return described.map((each) => {
    const { route, path, methods, run, to, at } = each;
    return {
      path,
      methods,
      at,
      steps: run.map(({ step, mode, when }, depth) => ({
        ...statusAt(route, depth, step),
        mode,
        isConditional: when !== undefined,
      })),
      surface: statusAt(route, run.length, to),
      requests: requests.get(each) ?? {},
    };
  });
}

function statusAt(route: CompiledRoute, depth: number, name: string): PluginStatus {
  const { time, refusals, errors, timeouts, skips } = route.stepStats.at(depth);
  return {
    name,
    timed: time.count,
    meanMs: time.count === 0 ? undefined : time.sumMs / time.count,
    p95Ms: time.quantile(0.95),
    refusals: Object.fromEntries(refusals),
    errors,
    timeouts,
    skips,
  };
}
