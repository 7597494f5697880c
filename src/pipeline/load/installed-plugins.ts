/**
 * Finds the plugins of all installed packages, except linked ones, by their files `sluice-plugin.json`. Their code does
 * not run.
 */
import { join } from "node:path";
import type { Plugin } from "../../plugin.ts";
import { installedPackages } from "./locate-plugin.ts";
import { pluginProblems } from "./manifest.ts";
import { isLinked, packageIn, pluginFromData, readPluginFile } from "./plugin-file.ts";

/** Returns the plugins by name. A file that cannot be used is skipped: it is a fault where pipeline.yaml names it. */
export function installedPlugins(folder: string): ReadonlyMap<string, Plugin> {
  const found = installedPackages(folder).flatMap((name): [string, Plugin][] => {
    const installed = packageIn(join(folder, "node_modules", name));
    const file = installed && !isLinked(installed) && readPluginFile(installed);
    if (file === undefined || file === false || typeof file === "string") return [];
    return Object.values(file.plugins)
      .map((data) => pluginFromData(data))
      .filter((plugin) => pluginProblems(plugin).length === 0)
      .map((plugin) => [plugin.name, plugin]);
  });
  return new Map(found);
}
