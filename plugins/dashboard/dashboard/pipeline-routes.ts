import type { HookStatus, LoadedPlugin, PluginStatus, RouteStatus } from "sluice-gateway/plugin";
import { sendJson } from "./answer.ts";
import type { DashboardDeps } from "./deps.ts";
import { rounded } from "./live.ts";
import { pipelineFile } from "./pipeline-file.ts";
import type { AddRoute } from "./route.ts";
import { storeStates } from "./stores.ts";

export function pipelineRoutes(add: AddRoute, deps: DashboardDeps): void {
  const views: Readonly<Record<string, () => object | Promise<object>>> = {
    routes: () => routesView(deps),
    plugins: () => pluginsView(deps),
    "pipeline-file": () => pipelineFile(deps),
    stores: async () => ({ stores: await storeStates(deps.store) }),
  };
  for (const [path, view] of Object.entries(views)) {
    add("GET", path, async (_viewer, _, reply) => sendJson(reply, 200, await view()), "platform");
  }
}

/** Counts and times are since the start of the process. */
function routesView({ gateway }: DashboardDeps): object {
  const { routes, generation, reload } = gateway.running();
  return { generation, reload, routes: routes.map(routeJson) };
}

function routeJson({ path, methods, at, steps, surface, requests }: RouteStatus): object {
  return {
    path,
    methods,
    at: `${at.line}:${at.col}`,
    steps: steps.map((step) => ({
      ...placedJson(step),
      mode: step.mode,
      conditional: step.isConditional,
    })),
    surface: placedJson(surface),
    requests,
  };
}

function placedJson({ meanMs, p95Ms, ...counts }: PluginStatus): object {
  const { name, timed, refusals, errors, timeouts, skips } = counts;
  const times = { mean_ms: rounded(meanMs), p95_ms: rounded(p95Ms) };
  return { name, timed, ...times, refusals, errors, timeouts, skips };
}

function pluginsView({ gateway }: DashboardDeps): object {
  return { plugins: gateway.running().plugins.map(pluginJson) };
}

function pluginJson({ hasGrants, hooks, ...facts }: LoadedPlugin): object {
  return { ...facts, has_grants: hasGrants, hooks: hooks.map(hookJson) };
}

function hookJson({ seconds, ...counts }: HookStatus): object {
  return { ...counts, ms: rounded(seconds * 1000) };
}
