/**
 * Finds and imports plugins. Those that ship with Sluice are the folders plugins/<module>/<plugin>; third-party ones are
 * declared under `plugins:` in pipeline.yaml. Both go through the same contract and the same checks.
 */
import { existsSync, globSync, readdirSync, statSync } from "node:fs";
import { registerHooks } from "node:module";
import { basename, dirname, join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { allUses } from "../config/check.ts";
import type { Config } from "../config/config.ts";
import { fault, type Fault, type Position } from "../config/fault.ts";
import { nearest } from "../config/nearest.ts";
import type { Plugin } from "../plugin.ts";
import { describeImportError } from "./import-error.ts";
import { currentUrl, importAgain, localFiles, refreshLocalModules } from "./local-modules.ts";
import { pluginProblems } from "./manifest.ts";

export interface Loaded {
  /** Every plugin that the configuration names and that could be loaded, by the name used there. */
  readonly plugins: ReadonlyMap<string, Plugin>;
  readonly faults: readonly Fault[];
  /** Code that has changed on disk and that only a restart can load, one sentence each. */
  readonly outdated: readonly string[];
}

const shippedFolder = fileURLToPath(new URL("../../plugins/", import.meta.url));
/** `index.ts` when Node runs the sources, `index.js` in the published package. */
const indexFile = `index${import.meta.url.endsWith(".ts") ? ".ts" : ".js"}`;

/** The plugins that ship with Sluice: name to module file, in alphabetical order of the names. */
export function shippedPlugins(): ReadonlyMap<string, string> {
  const files = globSync(`*/*/${indexFile}`, { cwd: shippedFolder })
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
      const message = `"${name}" is the name of a plugin that ships with Sluice`;
      faults.push(fault("SLUICE_PLUGIN_SHADOWS", message, { at }));
    } else add(name, await loadThirdParty(name, source, at, dirname(config.file)));
  }
  const uses = allUses(config).filter((use) => use.name !== "" && !config.plugins.has(use.name));
  for (const [name, [first]] of Map.groupBy(uses, (use) => use.name)) {
    const file = shipped.get(name);
    if (first === undefined || file === undefined) continue;
    add(name, await importPlugin(name, pathToFileURL(file).href, first.at));
  }
  const known = [...shipped.keys(), ...config.plugins.keys()];
  for (const { name, at } of uses) {
    if (shipped.has(name)) continue;
    const didYouMean = nearest(name, known);
    faults.push(fault("SLUICE_PLUGIN_UNKNOWN", `there is no plugin "${name}"`, { at, didYouMean }));
  }
  faults.push(...fastifyFaults(config));
  return { plugins, faults, outdated };
}

/** The listener imports Fastify's plugins itself; here they only have to be there. */
function fastifyFaults(config: Config): Fault[] {
  const folder = dirname(config.file);
  return config.fastify.flatMap(({ name, at }) => {
    if (locatePackage(name, folder) !== undefined) return [];
    const didYouMean = nearest(name, installedPackages(folder));
    const message = `there is no package ${name}`;
    return [fault("SLUICE_PLUGIN_NOT_FOUND", message, { at, didYouMean })];
  });
}

/** Every plugin that ships with Sluice; a broken one is left out, with its faults. */
export async function loadShipped(): Promise<Omit<Loaded, "outdated">> {
  const plugins = new Map<string, Plugin>();
  const faults: Fault[] = [];
  for (const [name, file] of shippedPlugins()) {
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
    const what = isPath(source) ? `no module at ${source}` : `no package ${source}`;
    const candidates = isPath(source) ? filesBeside(source, folder) : installedPackages(folder);
    const didYouMean = nearest(source, candidates);
    return [
      fault("SLUICE_PLUGIN_NOT_FOUND", `plugin "${name}": there is ${what}`, { at, didYouMean }),
    ];
  }
  return importPlugin(name, url, at);
}

function isPath(source: string): boolean {
  return /^(\.\.?(\/|$)|\/|file:)/.test(source);
}

/** A module file, or a folder with an index, counted from the folder of pipeline.yaml. */
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

/** Undefined for a URL that names no local file (another host). */
function pathOfUrl(url: string): string | undefined {
  try {
    return fileURLToPath(url);
  } catch {
    return undefined;
  }
}

/** What stands where the path points, spelled like the path. */
function filesBeside(source: string, folder: string): string[] {
  const parent = dirname(source);
  return namesIn(resolve(folder, parent)).map((name) => `${parent}/${name}`);
}

/** Names in a folder; none when there is no such folder. */
function namesIn(folder: string): string[] {
  const isFolder = statSync(folder, { throwIfNoEntry: false })?.isDirectory() === true;
  return isFolder ? readdirSync(folder) : [];
}

/**
 * The module that `import "source"` would mean in a file beside pipeline.yaml, else in Sluice itself; undefined when
 * there is none. Node resolves packages only for the module that asks (`import.meta.resolve` takes no other parent); a
 * resolve hook for one call lends it that parent, so that `exports`, conditions and nested node_modules mean what they
 * mean to Node.
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
/** The file of every plugin module that this process has imported, to the plugin's name. */
export const pluginModules: ReadonlyMap<string, string> = importedModules;

async function importPlugin(name: string, url: string, at: Position): Promise<Plugin | Fault[]> {
  importedModules.set(fileURLToPath(url), name);
  let module: unknown;
  try {
    module = await import(currentUrl(url));
  } catch (error) {
    importAgain(url);
    const reason = await describeImportError(error, localFiles(url));
    return [fault("SLUICE_PLUGIN_IMPORT", `plugin "${name}" does not load: ${reason}`, { at })];
  }
  const plugin =
    typeof module === "object" && module !== null && "default" in module
      ? module.default
      : undefined;
  if (plugin === undefined) {
    return [fault("SLUICE_PLUGIN_EXPORT", `plugin "${name}" has no default export`, { at })];
  }
  const problems = pluginProblems(plugin);
  if (problems.length > 0) {
    return problems.map((problem) =>
      fault("SLUICE_PLUGIN_SHAPE", `plugin "${name}": ${problem}`, { at }),
    );
  }
  // `pluginProblems` has found every member to be of its type.
  const sound = plugin as Plugin;
  if (sound.name === name) return sound;
  const message = `the plugin under "${name}" calls itself "${sound.name}"`;
  return [fault("SLUICE_PLUGIN_NAME", message, { at, didYouMean: sound.name })];
}
