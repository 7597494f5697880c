/** Reports the compiled pipeline: every route with its steps, their times, refusals and failures. */
import type { PluginStatus, RouteStatus } from "sluice-gateway/plugin";
import { rounded } from "./live.ts";
import type { DashboardDeps } from "./deps.ts";

/** Requests are counted since the start of the process, steps since this pipeline was loaded. */
export function routesView({ gateway }: DashboardDeps): object {
  const { routes, generation, reload } = gateway.running();
  return { generation, reload, routes: routes.map(routeJson) };
}

function routeJson({ path, methods, at, steps, surface, requests }: RouteStatus): object {
  return {
    path,
    methods,
    at: `${at.line}:${at.col}`,
    steps: steps.map((step) => ({
      ...pluginJson(step),
      mode: step.mode,
      conditional: step.isConditional,
    })),
    surface: pluginJson(surface),
    requests,
  };
}

function pluginJson({ meanMs, p95Ms, ...counts }: PluginStatus): object {
  const { name, timed, refusals, errors, timeouts, skips } = counts;
  const times = { mean_ms: rounded(meanMs), p95_ms: rounded(p95Ms) };
  return { name, timed, ...times, refusals, errors, timeouts, skips };
}
