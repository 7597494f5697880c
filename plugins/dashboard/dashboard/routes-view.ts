/** Reports the compiled pipeline: every route with its steps, their times and their refusals. */
import type { CompiledRoute } from "../../../src/pipeline/load/compile.ts";
import { describeRoute } from "../../../src/pipeline/load/describe.ts";
import { rounded } from "./live.ts";
import type { DashboardParts } from "./parts.ts";

/** Requests are counted since the start of the process, steps since this pipeline was loaded. */
export function routesView({ generation, metrics }: DashboardParts): object {
  const { routes, unmatched, number } = generation();
  const requests = new Map<string, Record<string, number>>();
  for (const { labels, value } of metrics.read("sluice_requests_total")) {
    const { route = "", status = "" } = labels;
    const counts = requests.get(route) ?? {};
    counts[status] = value;
    requests.set(route, counts);
  }
  return {
    generation: number,
    routes: [...routes, unmatched].map((route) => ({
      ...routeJson(route),
      requests: requests.get(route.config.path) ?? {},
    })),
  };
}

function routeJson(route: CompiledRoute): object {
  const { path, methods, run, to, at } = describeRoute(route);
  return {
    path,
    methods,
    at: `${at.line}:${at.col}`,
    steps: run.map(({ step, mode, when }, depth) => ({
      name: step,
      mode,
      conditional: when !== undefined,
      ...spent(route, depth),
    })),
    surface: { name: to, ...spent(route, run.length) },
  };
}

function spent(route: CompiledRoute, depth: number): object {
  const { time, refusals } = route.stepStats.at(depth);
  return {
    timed: time.count,
    mean_ms: time.count === 0 ? undefined : rounded(time.sumMs / time.count),
    p95_ms: rounded(time.quantile(0.95)),
    refusals: Object.fromEntries(refusals),
  };
}
