/** From a file to a running generation, or to the list of everything that is wrong with it. */
import { checkPlugins } from "../config/check.ts";
import type { Config, Fault } from "../config/config.ts";
import { orderFaults } from "../config/fault.ts";
import { readConfig, type Reading } from "../config/read.ts";
import type { Generation } from "./generation.ts";
import { provision } from "./generation.ts";
import { loadPlugins } from "./load.ts";
import type { Services } from "./services.ts";
import type { CoreMetrics } from "./stats.ts";
import type { Plugin } from "../plugin.ts";

type Env = Readonly<Record<string, string | undefined>>;

/** A configuration whose plugins are loaded and whose order is proved. */
export interface Checked {
  readonly config: Config;
  readonly plugins: ReadonlyMap<string, Plugin>;
}

/** Reads the file, imports its plugins and proves their order. Starts nothing. */
export async function checkFile(
  file: string,
  env: Env,
): Promise<{ checked: Checked | undefined; faults: readonly Fault[] }> {
  return checkReading(await readConfig(file, env));
}

/** The same for a file that has been read. */
export async function checkReading({
  config,
  faults,
}: Reading): Promise<{ checked: Checked | undefined; faults: readonly Fault[] }> {
  if (config === undefined) return { checked: undefined, faults: orderFaults(faults) };
  const loaded = await loadPlugins(config);
  const proved = checkPlugins(config, loaded.plugins);
  const all = [...faults, ...loaded.faults, ...proved.faults];
  return {
    checked: all.length === 0 ? { config: proved.config, plugins: loaded.plugins } : undefined,
    faults: orderFaults(all),
  };
}

/** Provisions a checked configuration beside the generation that runs now. */
export async function nextGeneration(
  { config, plugins }: Checked,
  services: Services,
  core: CoreMetrics,
  previous?: Generation,
): Promise<{ generation: Generation | undefined; faults: readonly Fault[] }> {
  return provision(config, plugins, services, core, previous);
}
