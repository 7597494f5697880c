import type { Environment } from "../../config/environment.ts";
import type { RenderedMetrics } from "../../base/metrics.ts";
import type {
  BackendStatus,
  FoundExchanges,
  GatewayInfo,
  PluginStatus,
  RouteStatus,
} from "../../plugin.ts";
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

/** `observers` get each exchange that has ended. `started`: undefined while the first generation starts. */
export function gatewayInfo(
  env: Environment,
  observers: Set<ExchangeObserver>,
  started: () => GatewayInfoDeps | undefined,
): GatewayInfo {
  return {
    variable: (name) => env[name],
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
  const countsOf = stepCounts(metrics);
  return described.map((each) => {
    const { route, path, methods, run, to, at } = each;
    const statusAt = (depth: number, name: string): PluginStatus => {
      const { seconds, ...counts } = countsOf(path, name);
      const meanMs = counts.timed === 0 ? undefined : (1000 * seconds) / counts.timed;
      return { name, ...counts, meanMs, p95Ms: route.stepStats.at(depth).times.quantile(0.95) };
    };
    return {
      path,
      methods,
      at,
      steps: run.map(({ step, mode, when }, depth) => ({
        ...statusAt(depth, step),
        mode,
        isConditional: when !== undefined,
      })),
      surface: statusAt(run.length, to),
      requests: requests.get(each) ?? {},
    };
  });
}

interface StepCounts {
  seconds: number;
  timed: number;
  errors: number;
  timeouts: number;
  skips: number;
  refusals: Record<string, number>;
}

const counted = ["seconds", "timed", "errors", "timeouts", "skips"] as const;

/** Returns the counts of steps and surfaces in all threads by path and name. Routes with the same path share them. */
function stepCounts(
  metrics: GatewayInfoDeps["metrics"],
): (path: string, name: string) => StepCounts {
  const all = new Map<string, StepCounts>();
  const countsOf = (path = "", name = ""): StepCounts => {
    const key = `${path} ${name}`;
    const zero = { seconds: 0, timed: 0, errors: 0, timeouts: 0, skips: 0, refusals: {} };
    const counts = all.get(key) ?? zero;
    all.set(key, counts);
    return counts;
  };
  for (const member of counted) {
    for (const { labels, value } of metrics.read(`sluice_step_${member}_total`)) {
      countsOf(labels["route"], labels["step"])[member] += value;
    }
  }
  for (const { labels, value } of metrics.read("sluice_step_refusals_total")) {
    countsOf(labels["route"], labels["step"]).refusals[labels["code"] ?? ""] = value;
  }
  return countsOf;
}
