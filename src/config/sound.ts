/** The part of a configuration that can be started although other parts are wrong: what `sluice check` tries. */
import type { Config, PluginUse, RouteConfig } from "./config.ts";
import { isWhole } from "./located.ts";

/** Whether all options could be read: what a broken one would have said is not to be judged. */
export function isReadable({ incomplete = false, source }: PluginUse): boolean {
  return !incomplete && (source === undefined || isWhole(source));
}

/** Without the uses that are not sound. A route whose surface is not keeps its steps. */
export function soundPart(config: Config, isSound: (use: PluginUse) => boolean): Config {
  const soundRoute = (route: RouteConfig): RouteConfig => ({
    ...route,
    run: route.run.filter(isSound),
    // The empty name is never looked up.
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
