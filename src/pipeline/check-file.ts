/** From a file to a configuration that can be brought to life, or to the list of everything that is wrong with it. */
import { checkPlugins } from "../config/check.ts";
import type { Config } from "../config/config.ts";
import { orderFaults, type Fault } from "../config/fault.ts";
import { readConfig, type Reading } from "../config/read.ts";
import type { Plugin } from "../plugin.ts";
import { loadPlugins } from "./load.ts";

type Env = Readonly<Record<string, string | undefined>>;

/** A configuration whose plugins are loaded and whose order is proved. */
export interface Checked {
  readonly config: Config;
  readonly plugins: ReadonlyMap<string, Plugin>;
}

/** Everything wrong with a file; `checked` only where that is nothing. */
export interface Judged {
  readonly checked: Checked | undefined;
  /** What of it can be started all the same, for a trial: undefined when the file could not be read. */
  readonly sound: Checked | undefined;
  readonly faults: readonly Fault[];
  /** Code that has changed on disk and that only a restart can load, one sentence each. */
  readonly outdated: readonly string[];
}

/** Reads the file, imports its plugins and proves their order. Starts nothing. */
export async function checkFile(file: string, env: Env): Promise<Judged> {
  return checkReading(await readConfig(file, env));
}

/** The same for a file that has been read. */
export async function checkReading({ config, faults }: Reading): Promise<Judged> {
  if (config === undefined) {
    return { checked: undefined, sound: undefined, faults: orderFaults(faults), outdated: [] };
  }
  const { plugins, faults: unloaded, outdated } = await loadPlugins(config);
  const proved = checkPlugins(config, plugins);
  const all = [...faults, ...unloaded, ...proved.faults];
  return {
    checked: all.length === 0 ? { config: proved.config, plugins } : undefined,
    sound: { config: proved.sound, plugins },
    faults: orderFaults(all),
    outdated,
  };
}
