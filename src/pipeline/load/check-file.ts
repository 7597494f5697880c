/** Turns a file into a configuration that can be started, or into the list of its faults. */
import { checkPlugins } from "../../config/check.ts";
import type { Config } from "../../config/config.ts";
import { orderFaults, type Fault } from "../../config/fault.ts";
import { readConfig, type Reading } from "../../config/read.ts";
import type { Plugin } from "../../plugin.ts";
import { loadPlugins } from "./load.ts";
import { shippedServices } from "./modules.ts";

type Env = Readonly<Record<string, string | undefined>>;

/** A configuration whose plugins are loaded and whose order has been proved. */
export interface Checked {
  readonly config: Config;
  readonly plugins: ReadonlyMap<string, Plugin>;
}

/** The result of checking a file. `checked` is defined only if there are no faults. */
export interface Judged {
  readonly checked: Checked | undefined;
  /** The part that can be started in a dry run despite the faults. Undefined if the file could not be read. */
  readonly sound: Checked | undefined;
  readonly faults: readonly Fault[];
  /** One sentence for each change on disk that only a restart can load. */
  readonly outdated: readonly string[];
}

/** Reads the file, imports its plugins and proves their order. Does not start any plugin. */
export async function checkFile(file: string, env: Env): Promise<Judged> {
  return checkReading(await readPipeline(file, env));
}

/** Reads pipeline.yaml with the sections of the services that ship with Sluice. */
export async function readPipeline(file: string, env: Env): Promise<Reading> {
  return readConfig(file, env, await shippedServices());
}

/** Like `checkFile`, for a file that has been read already. */
export async function checkReading({ config, faults }: Reading): Promise<Judged> {
  if (config === undefined) {
    return { checked: undefined, sound: undefined, faults: orderFaults(faults), outdated: [] };
  }
  const { plugins, faults: unloaded, outdated } = await loadPlugins(config);
  const proved = checkPlugins(config, plugins, faults);
  const all = [...faults, ...unloaded, ...proved.faults];
  return {
    checked: all.length === 0 ? { config: proved.config, plugins } : undefined,
    sound: { config: proved.sound, plugins },
    faults: orderFaults(all),
    outdated,
  };
}
