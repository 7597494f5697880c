import type { Config, PluginUse, RouteConfig } from "./config.ts";
import { isFullyRead } from "./located.ts";

/** Options that could not be read must not be checked. */
export function isReadable({ incomplete = false, source }: PluginUse): boolean {
  return !incomplete && (source === undefined || isFullyRead(source));
}

/** A route whose surface cannot be started keeps its steps. */
export function startablePart(config: Config, isStartable: (use: PluginUse) => boolean): Config {
  const startableRoute = (route: RouteConfig): RouteConfig => ({
    ...route,
    run: route.run.filter(isStartable),
    to: isStartable(route.to) ? route.to : { ...route.to, name: "" },
  });
  return {
    ...config,
    routes: config.routes.map(startableRoute),
    tools: config.tools.filter(isStartable),
    services: config.services.filter(isStartable),
    unmatched: config.unmatched.filter(isStartable),
  };
}
