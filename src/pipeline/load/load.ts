/**
 * Finds and imports plugins. Plugins that ship with Sluice are the folders plugins/<module>/<plugin>; third-party
 * plugins are declared under `plugins:` in pipeline.yaml. The same contract and the same checks apply to both.
 */
import { existsSync, globSync, readdirSync, statSync } from "node:fs";
import { registerHooks } from "node:module";
import { basename, dirname, join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { allUses } from "../../config/check.ts";
import type { Config } from "../../config/config.ts";
import { fault, type Fault, type Position } from "../../config/fault.ts";
import { nearest } from "../../config/nearest.ts";
import { isBuiltIn } from "../../config/services.ts";
import { contractVersion, supportsContract } from "../../contract/version.ts";
import { isObject } from "../../is-object.ts";
import { codeSuffix } from "../../package-files.ts";
import type { Plugin } from "../../plugin.ts";
import { describeImportError } from "./import-error.ts";
import { currentUrl, importAgain, localFiles, refreshLocalModules } from "./local-modules.ts";
import { pluginProblems } from "./manifest.ts";
import { shippedFolder, shippedModules } from "./modules.ts";

export interface Loaded {
  /** The plugins of the configuration that could be loaded, by the name in the configuration. */
  readonly plugins: ReadonlyMap<string, Plugin>;
  readonly faults: readonly Fault[];
  /** One sentence for each change on disk that only a restart can load. */
  readonly outdated: readonly string[];
}

/** Returns the module files of the plugins that ship with Sluice, by plugin name in alphabetical order. */
export function shippedPlugins(): ReadonlyMap<string, string> {
  const files = globSync(`*/*/index${codeSuffix}`, { cwd: shippedFolder })
    .map((file) => join(shippedFolder, file))
    .map((file): [string, string] => [basename(dirname(file)), file]);
  return new Map(files.toSorted(([a], [b]) => (a < b ? -1 : 1)));
}

export async function loadPlugins(config: Config): Promise<Loaded> {
  const shipped = shippedPlugins();
  const plugins = new Map<string, Plugin>();
  const faults: Fault[] = [];
  const outdated = refreshLocalModules();
  const add = (name: string, result: Plugin | Fault[]): void => {
    if (Array.isArray(result)) faults.push(...result);
    else plugins.set(name, result);
  };
  for (const [name, { source, at }] of config.plugins) {
    if (shipped.has(name)) {
      const message = `invalid plugin name "${name}": a plugin that ships with Sluice has this name`;
      faults.push(fault("SLUICE_PLUGIN_SHADOWS", message, { at }));
    } else add(name, await loadThirdParty(name, source, at, dirname(config.file)));
  }
  const uses = allUses(config).filter((use) => use.name !== "" && !config.plugins.has(use.name));
  for (const [name, [first]] of Map.groupBy(uses, (use) => use.name)) {
    const file = shipped.get(name);
    if (first === undefined || file === undefined) continue;
    add(name, await importPlugin(name, pathToFileURL(file).href, first.at));
  }
  const services = await servicesInUse(plugins, config);
  for (const [name, service] of services) {
    const file = shipped.get(name);
    if (file !== undefined) importedModules.set(file, name);
    plugins.set(name, service);
  }
  const known = [...shipped.keys(), ...config.plugins.keys()];
  for (const { name, at } of uses) {
    if (shipped.has(name)) continue;
    const didYouMean = nearest(name, known);
    faults.push(fault("SLUICE_PLUGIN_UNKNOWN", `unknown plugin "${name}"`, { at, didYouMean }));
  }
  faults.push(...fastifyFaults(config));
  return { plugins, faults, outdated };
}

/** Returns the shipped services that these plugins use, directly or through other services, and those that always run. */
async function servicesInUse(
  plugins: ReadonlyMap<string, Plugin>,
  { tools }: Config,
): Promise<ReadonlyMap<string, Plugin>> {
  const { services, alwaysOn, companions } = await shippedModules();
  const found = new Map<string, Plugin>();
  // A service that only may be used does not run without the module that has a service which it uses itself.
  const servicesExist = (name: string): boolean =>
    isBuiltIn(name) || (services.get(name)?.uses?.every(servicesExist) ?? services.has(name));
  const add = (name: string): void => {
    const service = services.get(name);
    if (service === undefined || plugins.has(name) || found.has(name)) return;
    found.set(name, service);
    addUsed(service);
  };
  const addUsed = ({ uses = [], usesIfInstalled = [] }: Plugin): void => {
    uses.forEach(add);
    usesIfInstalled.filter(servicesExist).forEach(add);
  };
  for (const plugin of plugins.values()) addUsed(plugin);
  alwaysOn.filter(servicesExist).forEach(add);
  const isRunning = (name: string): boolean =>
    name === "tools" ? tools.length > 0 : found.has(name);
  for (const [name, other] of companions) if (isRunning(other)) add(name);
  return found;
}

/** Checks that the packages of Fastify plugins exist. The listener imports them itself. */
function fastifyFaults(config: Config): Fault[] {
  const folder = dirname(config.file);
  return config.fastify.flatMap(({ name, at }) => {
    if (locatePackage(name, folder) !== undefined) return [];
    const didYouMean = nearest(name, installedPackages(folder));
    const message = `package ${name} not found`;
    return [fault("SLUICE_PLUGIN_NOT_FOUND", message, { at, didYouMean })];
  });
}

/** Loads every plugin that ships with Sluice. A plugin that does not load is skipped, and its faults are returned. */
export async function loadShipped(): Promise<Omit<Loaded, "outdated">> {
  const plugins = new Map<string, Plugin>();
  const faults: Fault[] = [];
  const { services } = await shippedModules();
  for (const [name, service] of services) plugins.set(name, service);
  for (const [name, file] of shippedPlugins()) {
    if (services.has(name)) continue;
    const at = { file, line: 1, col: 1 };
    const result = await importPlugin(name, pathToFileURL(file).href, at);
    if (Array.isArray(result)) faults.push(...result);
    else plugins.set(name, result);
  }
  return { plugins, faults };
}

async function loadThirdParty(
  name: string,
  source: string,
  at: Position,
  folder: string,
): Promise<Plugin | Fault[]> {
  const url = isPath(source) ? locatePath(source, folder) : locatePackage(source, folder);
  if (url === undefined) {
    const what = isPath(source) ? `module ${source}` : `package ${source}`;
    const candidates = isPath(source) ? filesBeside(source, folder) : installedPackages(folder);
    const didYouMean = nearest(source, candidates);
    return [
      fault("SLUICE_PLUGIN_NOT_FOUND", `plugin "${name}": ${what} not found`, { at, didYouMean }),
    ];
  }
  return importPlugin(name, url, at);
}

function isPath(source: string): boolean {
  return /^(\.\.?(\/|$)|\/|file:)/.test(source);
}

/** Finds a module file, or a folder with an index. `source` is relative to the folder of pipeline.yaml. */
function locatePath(source: string, folder: string): string | undefined {
  const path = source.startsWith("file:") ? pathOfUrl(source) : resolve(folder, source);
  if (path === undefined) return undefined;
  const candidates = [
    path,
    ...["index.ts", "index.js", "index.mjs"].map((file) => join(path, file)),
  ];
  const found = candidates.find((file) => statSync(file, { throwIfNoEntry: false })?.isFile());
  return found && pathToFileURL(found).href;
}

/** Returns undefined for a URL that is not a local file (another host). */
function pathOfUrl(url: string): string | undefined {
  try {
    return fileURLToPath(url);
  } catch {
    return undefined;
  }
}

/** Returns the paths of all files in the same folder, spelled like `source`. */
function filesBeside(source: string, folder: string): string[] {
  const parent = dirname(source);
  return namesIn(resolve(folder, parent)).map((name) => `${parent}/${name}`);
}

/** Returns the names in a folder. Empty if the folder does not exist. */
function namesIn(folder: string): string[] {
  const isFolder = statSync(folder, { throwIfNoEntry: false })?.isDirectory() === true;
  return isFolder ? readdirSync(folder) : [];
}

/**
 * Returns the URL that `import "source"` resolves to in a file next to pipeline.yaml, else in Sluice itself. Undefined
 * if neither resolves. Node resolves packages only for the calling module (`import.meta.resolve` does not accept
 * another parent). A resolve hook sets the parent for one call, so that `exports`, conditions and nested node_modules
 * work as in Node.
 */
export function locatePackage(source: string, folder: string): string | undefined {
  const parentURL = pathToFileURL(join(folder, "pipeline.yaml")).href;
  const hook = registerHooks({
    resolve: (specifier, context, next) =>
      specifier === source ? next(specifier, { ...context, parentURL }) : next(specifier, context),
  });
  try {
    const beside = resolvePackage(source);
    if (beside !== undefined) return beside;
  } finally {
    hook.deregister();
  }
  return resolvePackage(source);
}

function resolvePackage(source: string): string | undefined {
  try {
    const url = import.meta.resolve(source);
    return url.startsWith("file:") && existsSync(fileURLToPath(url)) ? url : undefined;
  } catch {
    return undefined;
  }
}

function installedPackages(folder: string): string[] {
  const modules = join(folder, "node_modules");
  return namesIn(modules).flatMap((name) =>
    name.startsWith("@") ? namesIn(join(modules, name)).map((part) => `${name}/${part}`) : [name],
  );
}

const importedModules = new Map<string, string>();
/** Maps the file of every plugin module that this process has imported to the plugin's name. */
export const pluginModules: ReadonlyMap<string, string> = importedModules;

async function importPlugin(name: string, url: string, at: Position): Promise<Plugin | Fault[]> {
  importedModules.set(fileURLToPath(url), name);
  let module: unknown;
  try {
    module = await import(currentUrl(url));
  } catch (error) {
    importAgain(url);
    const reason = await describeImportError(error, localFiles(url));
    return [
      fault("SLUICE_PLUGIN_IMPORT", `plugin "${name}" could not be loaded: ${reason}`, { at }),
    ];
  }
  const plugin = isObject(module) ? module["default"] : undefined;
  if (plugin === undefined) {
    return [fault("SLUICE_PLUGIN_EXPORT", `plugin "${name}" has no default export`, { at })];
  }
  const problems = pluginProblems(plugin);
  if (problems.length > 0) {
    return problems.map((problem) =>
      fault("SLUICE_PLUGIN_SHAPE", `plugin "${name}": ${problem}`, { at }),
    );
  }
  // `pluginProblems` has checked the type of every member.
  const valid = plugin as Plugin;
  if (valid.contract !== undefined && !supportsContract(valid.contract)) {
    const message = `plugin "${name}" is for version ${valid.contract} of the plugin contract; this release has ${contractVersion}`;
    return [fault("SLUICE_PLUGIN_CONTRACT", message, { at })];
  }
  if (valid.name === name) return valid;
  const message = `the plugin under "${name}" has the name "${valid.name}"`;
  return [fault("SLUICE_PLUGIN_NAME", message, { at, didYouMean: valid.name })];
}
