import type { Config, PluginUse, RouteConfig, StepUse } from "./config.ts";
import { fault, type Fault } from "./fault.ts";
import { pathNeverMatches, coversAllPaths, withHead } from "./paths.ts";

export function routeFaults(config: Config): Fault[] {
  return [...deadRoutes(config.routes), ...deadConditions(config)];
}

function deadRoutes(routes: readonly RouteConfig[]): Fault[] {
  return routes.flatMap((route, index) => {
    if (route.path === "") return [];
    const earlier = routes
      .slice(0, index)
      .filter((other) => other.path !== "" && other.websocket === route.websocket)
      .filter((other) => coversAllPaths(other.path, route.path));
    for (const other of earlier) {
      const taken = takenMethods(other, route);
      if (taken.length > 0) return [deadRoute(route, other, taken)];
    }
    return [];
  });
}

/**
 * The methods of `route` that `other` takes. With the same path, a named method has priority over `*`, in any order. If
 * `other` is a pattern that covers the path, its `*` takes all methods.
 */
function takenMethods(other: RouteConfig, route: RouteConfig): readonly string[] {
  if (other.methods.includes("*") && other.path !== route.path) return route.methods;
  const takes = new Set(withHead(other.methods));
  return route.methods.filter((method) => takes.has(method));
}

function deadRoute(route: RouteConfig, other: RouteConfig, taken: readonly string[]): Fault {
  const isWhole = taken.length === route.methods.length;
  const what = isWhole
    ? "no request reaches this route"
    : `no ${taken.join(" or ")} request reaches this route`;
  const message = `${what}: ${other.path} (line ${other.at.line}) matches first`;
  const remedy =
    other.path === route.path
      ? `Remove ${isWhole ? "one of the two routes" : "the method from one of the two routes"}.`
      : `Move this route above line ${other.at.line}, or remove it.`;
  return fault("SLUICE_ROUTE_DEAD", message, { at: route.at, remedy });
}

/** A step that matches on one of its routes is not dead. */
function deadConditions(config: Config): Fault[] {
  const alive = new Set<PluginUse["at"]>();
  const never = new Map<PluginUse["at"], StepUse>();
  for (const route of config.routes) {
    for (const step of route.run) {
      if (neverMatches(step, route)) never.set(step.at, step);
      else alive.add(step.at);
    }
  }
  for (const step of config.unmatched) alive.add(step.at);
  return [...never].flatMap(([at, step]) =>
    alive.has(at)
      ? []
      : [
          fault(
            "SLUICE_WHEN_NEVER",
            `the \`when\` of ${step.name} matches no request of its routes`,
            {
              at,
            },
          ),
        ],
  );
}

function neverMatches({ when }: StepUse, route: RouteConfig): boolean {
  if (when === undefined || route.path === "") return false;
  if (when.path !== undefined && pathNeverMatches(when.path, route.path)) return true;
  if (when.methods === undefined || route.methods.includes("*")) return false;
  const taken = new Set(withHead(route.methods));
  return !when.methods.some((method) => taken.has(method));
}
