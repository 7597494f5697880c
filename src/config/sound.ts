/** Returns the part of a configuration that `sluice check` can start although other parts have faults. */
import type { Config, PluginUse, RouteConfig } from "./config.ts";
import { isWhole } from "./located.ts";

/** Whether all options could be read. Options that could not be read must not be checked. */
export function isReadable({ incomplete = false, source }: PluginUse): boolean {
  return !incomplete && (source === undefined || isWhole(source));
}

/** Removes the uses that are not sound. A route whose surface is not sound keeps its steps. */
export function soundPart(config: Config, isSound: (use: PluginUse) => boolean): Config {
  const soundRoute = (route: RouteConfig): RouteConfig => ({
    ...route,
    run: route.run.filter(isSound),
    // No plugin is looked up for the empty name.
    to: isSound(route.to) ? route.to : { ...route.to, name: "" },
  });
  return {
    ...config,
    routes: config.routes.map(soundRoute),
    tools: config.tools.filter(isSound),
    services: config.services.filter(isSound),
    unmatched: config.unmatched.filter(isSound),
  };
}
