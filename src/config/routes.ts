/** Routes against one another and against the conditions in them: what could never run. */
import type { Config, PluginUse, RouteConfig, StepUse } from "./config.ts";
import { fault, type Fault } from "./fault.ts";
import { pathNeverFits, takesAll, withHead } from "./paths.ts";

export function routeFaults(config: Config): Fault[] {
  return [...deadRoutes(config.routes), ...deadConditions(config)];
}

function deadRoutes(routes: readonly RouteConfig[]): Fault[] {
  return routes.flatMap((route, index) => {
    if (route.path === "") return [];
    const earlier = routes
      .slice(0, index)
      .filter((other) => other.path !== "" && other.websocket === route.websocket)
      .filter((other) => takesAll(other.path, route.path));
    for (const other of earlier) {
      const taken = takenMethods(other, route);
      if (taken.length > 0) return [deadRoute(route, other, taken)];
    }
    return [];
  });
}

/**
 * The methods of `route` that go to `other`, which stands earlier. At one and the same path a method that is named wins
 * over `*`, in either order; a pattern that only covers the path takes with its `*` whatever comes.
 */
function takenMethods(other: RouteConfig, route: RouteConfig): readonly string[] {
  if (other.methods.includes("*") && other.path !== route.path) return route.methods;
  const takes = new Set(withHead(other.methods));
  return route.methods.filter((method) => takes.has(method));
}

function deadRoute(route: RouteConfig, other: RouteConfig, taken: readonly string[]): Fault {
  const isWhole = taken.length === route.methods.length;
  const what = isWhole
    ? "this route is never reached"
    : `${taken.join(", ")} never reaches this route`;
  const message = `${what}: ${other.path} (line ${other.at.line}) takes it`;
  const remedy =
    other.path === route.path
      ? `Remove ${isWhole ? "one of the two routes" : "the method from one of the two routes"}.`
      : `Move this route above line ${other.at.line}, or remove it.`;
  return fault("SLUICE_ROUTE_DEAD", message, { at: route.at, remedy });
}

/** A step whose condition fits none of the routes it stands in. A list may serve routes where it does not fit. */
function deadConditions(config: Config): Fault[] {
  const alive = new Set<PluginUse["at"]>();
  const never = new Map<PluginUse["at"], StepUse>();
  for (const route of config.routes) {
    for (const step of route.run) {
      if (neverHolds(step, route)) never.set(step.at, step);
      else alive.add(step.at);
    }
  }
  for (const step of config.unmatched) alive.add(step.at);
  return [...never].flatMap(([at, step]) =>
    alive.has(at)
      ? []
      : [
          fault("SLUICE_WHEN_NEVER", `the \`when\` of ${step.name} fits no request of its routes`, {
            at,
          }),
        ],
  );
}

function neverHolds({ when }: StepUse, route: RouteConfig): boolean {
  if (when === undefined || route.path === "") return false;
  if (when.path !== undefined && pathNeverFits(when.path, route.path)) return true;
  if (when.methods === undefined || route.methods.includes("*")) return false;
  const taken = new Set(withHead(route.methods));
  return !when.methods.some((method) => taken.has(method));
}
