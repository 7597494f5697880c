import { checkPlugins } from "../../config/check.ts";
import type { Config } from "../../config/config.ts";
import { orderFaults, type Fault } from "../../config/fault.ts";
import { oneThreadFaults } from "../../config/threads.ts";
import { readConfig, type ParsedConfig } from "../../config/read.ts";
import type { Plugin } from "../../plugin.ts";
import { loadPlugins, type Loaded, type LoadOptions } from "./load.ts";
import { shippedServices } from "./modules.ts";

type Env = Readonly<Record<string, string | undefined>>;

/** A configuration whose plugins are loaded and whose order has been proved. */
export interface ValidatedConfig {
  readonly config: Config;
  readonly plugins: ReadonlyMap<string, Plugin>;
  readonly origins: Loaded["origins"];
}

/** The result of checking a file. `validated` is defined only if there are no faults. */
export interface CheckResult {
  readonly validated: ValidatedConfig | undefined;
  /** The part that can be started in a dry run despite the faults. Undefined if the file could not be read. */
  readonly startable: ValidatedConfig | undefined;
  readonly faults: readonly Fault[];
  /** One sentence for each change on disk that only a restart can load. */
  readonly outdated: readonly string[];
}

export async function checkFile(
  file: string,
  env: Env,
  options: LoadOptions = {},
): Promise<CheckResult> {
  return checkParsed(await readPipeline(file, env), options);
}

export async function readPipeline(file: string, env: Env): Promise<ParsedConfig> {
  return readConfig(file, env, await shippedServices());
}

export async function checkParsed(
  { config: parsed, faults }: ParsedConfig,
  options: LoadOptions = {},
): Promise<CheckResult> {
  const config = parsed && withoutServices(parsed, options.without ?? []);
  if (config === undefined) {
    return {
      validated: undefined,
      startable: undefined,
      faults: orderFaults(faults),
      outdated: [],
    };
  }
  const { plugins, origins, faults: unloaded, outdated } = await loadPlugins(config, options);
  const checked = checkPlugins(config, plugins, faults);
  const all = [...faults, ...unloaded, ...checked.faults, ...oneThreadFaults(config, plugins)];
  return {
    validated: all.length === 0 ? { config: checked.config, plugins, origins } : undefined,
    startable: { config: checked.startable, plugins, origins },
    faults: orderFaults(all),
    outdated,
  };
}

/** Leaves out plugins with these names, and their sections. Shipped services are left out when they are loaded. */
function withoutServices(config: Config, names: readonly string[]): Config {
  return {
    ...config,
    plugins: new Map([...config.plugins].filter(([name]) => !names.includes(name))),
    services: config.services.filter(({ name }) => !names.includes(name)),
  };
}
