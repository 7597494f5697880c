/**
 * Finds and imports plugins. Plugins that ship with Sluice are the folders plugins/<module>/<plugin>; third-party
 * plugins are declared under `plugins:` in pipeline.yaml. The same contract and the same checks apply to both.
 */
import { basename, dirname } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { allUses } from "../../config/check.ts";
import type { Config, ThirdPartyPlugin } from "../../config/config.ts";
import { fault, type Fault, type Position } from "../../config/fault.ts";
import { nearest } from "../../config/nearest.ts";
import { isBuiltIn } from "../../config/services.ts";
import { missingGrants } from "../../contract/permissions.ts";
import { contractVersion, supportsContract } from "../../contract/version.ts";
import { isObject } from "../../base/is-object.ts";
import { keepingAlive, late, withinLimit } from "../../base/time-limit.ts";
import { packageFile } from "../../base/package-files.ts";
import type { Plugin } from "../../plugin.ts";
import { currentUrl, importAgain, localFiles, refreshLocalModules } from "./local-modules.ts";
import {
  filesBeside,
  installedPackages,
  isPath,
  locatePackage,
  locatePath,
} from "./locate-plugin.ts";
import type { PluginOrigin } from "./loaded-plugins.ts";
import { pluginProblems } from "./manifest.ts";
import { shippedModules } from "./modules.ts";
import { packageOf } from "./installed-package.ts";
import { importModule } from "../../import-module.ts";
import { shippedFiles } from "../../shipped-files.ts";

const maxFiles = 100;

export interface Loaded {
  readonly plugins: ReadonlyMap<string, Plugin>;
  /** The origins of the plugins, by the same names. A plugin without an entry ships with Sluice. */
  readonly origins: ReadonlyMap<string, PluginOrigin>;
  readonly faults: readonly Fault[];
  /** One sentence for each change on disk that only a restart can load. */
  readonly outdated: readonly string[];
}

interface ShippedPlugin {
  /** The absolute path that the module has in a checkout. */
  readonly file: string;
  readonly load: () => Promise<unknown>;
}

export function shippedPlugins(): ReadonlyMap<string, ShippedPlugin> {
  const found = Object.entries(shippedFiles()).filter(([path]) => path.endsWith("/index.ts"));
  return new Map(
    found
      .map(([path, load]): [string, ShippedPlugin] => {
        return [basename(dirname(path)), { file: packageFile(path), load }];
      })
      .toSorted(([a], [b]) => (a < b ? -1 : 1)),
  );
}

const fromCode: PluginOrigin = { from: "code", source: undefined };

export interface LoadOptions {
  /** Plugins that were made in code, by name. They are used in place of modules and services with these names. */
  readonly given?: ReadonlyMap<string, unknown>;
  readonly without?: readonly string[];
  /** Leaves out the services that always run, unless a plugin uses them. */
  readonly onlyUsed?: boolean;
}

export async function loadPlugins(
  config: Config,
  { given = new Map(), without = [], onlyUsed = false }: LoadOptions = {},
): Promise<Loaded> {
  const shipped = shippedPlugins();
  const plugins = new Map<string, Plugin>();
  const origins = new Map<string, PluginOrigin>();
  const faults: Fault[] = [];
  const outdated = refreshLocalModules();
  const add = (name: string, result: Plugin | Fault[]): void => {
    if (Array.isArray(result)) faults.push(...result);
    else plugins.set(name, result);
  };
  const addGiven = (name: string, at: Position): void => {
    origins.set(name, fromCode);
    add(name, checkedPlugin(name, given.get(name), at));
  };
  for (const [name, wanted] of config.plugins) {
    const { at } = wanted;
    if (given.has(name)) addGiven(name, at);
    else if (shipped.has(name)) {
      const message = `invalid plugin name "${name}": a plugin that ships with Sluice has this name`;
      faults.push(fault("SLUICE_PLUGIN_SHADOWS", message, { at }));
    } else {
      const foundAt = (origin: PluginOrigin): void => void origins.set(name, origin);
      add(name, await loadThirdParty(name, wanted, dirname(config.file), foundAt));
    }
  }
  const uses = allUses(config).filter((use) => use.name !== "" && !config.plugins.has(use.name));
  for (const [name, [first]] of Map.groupBy(uses, (use) => use.name)) {
    const found = shipped.get(name);
    if (first === undefined) continue;
    if (given.has(name)) addGiven(name, first.at);
    else if (found !== undefined) add(name, await importShipped(name, found, first.at));
  }
  const services = await servicesInUse(plugins, config, { given, without, onlyUsed });
  for (const [name, service] of services) {
    const found = shipped.get(name);
    if (given.has(name)) origins.set(name, fromCode);
    else if (found !== undefined) importedModules.set(found.file, name);
    plugins.set(name, service);
  }
  const known = [...shipped.keys(), ...config.plugins.keys()];
  for (const { name, at } of uses) {
    if (shipped.has(name) || given.has(name)) continue;
    const didYouMean = nearest(name, known);
    faults.push(fault("SLUICE_PLUGIN_UNKNOWN", `unknown plugin "${name}"`, { at, didYouMean }));
  }
  faults.push(...fastifyFaults(config));
  return { plugins, origins, faults, outdated };
}

/** Services that these plugins use, directly or through others, and those that always run, unless `onlyUsed` is set. */
async function servicesInUse(
  plugins: ReadonlyMap<string, Plugin>,
  { tools }: Config,
  { given, without, onlyUsed }: Required<LoadOptions>,
): Promise<ReadonlyMap<string, Plugin>> {
  const { services: installed, alwaysOn, companions } = await shippedModules();
  const services = new Map<string, Plugin>(
    [...installed, ...given].filter(
      (entry): entry is [string, Plugin] => isService(entry[1]) && !without.includes(entry[0]),
    ),
  );
  const found = new Map<string, Plugin>();
  // A service that is only used if it is installed does not run if one of the services that it uses itself is missing.
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
  if (!onlyUsed) alwaysOn.filter(servicesExist).forEach(add);
  // A companion uses more of its service than a stand-in from code may have.
  const isRunning = (name: string): boolean =>
    name === "tools" ? tools.length > 0 : found.has(name) && !given.has(name);
  for (const [name, other] of companions) if (isRunning(other)) add(name);
  return found;
}

function isService(plugin: unknown): boolean {
  return isObject(plugin) && plugin["kind"] === "service";
}

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
export async function loadShipped(): Promise<Pick<Loaded, "plugins" | "faults">> {
  const plugins = new Map<string, Plugin>();
  const faults: Fault[] = [];
  const { services } = await shippedModules();
  for (const [name, service] of services) plugins.set(name, service);
  for (const [name, found] of shippedPlugins()) {
    if (services.has(name)) continue;
    const result = await importShipped(name, found, { file: found.file, line: 1, col: 1 });
    if (Array.isArray(result)) faults.push(...result);
    else plugins.set(name, result);
  }
  return { plugins, faults };
}

async function loadThirdParty(
  name: string,
  { source, grants, at }: ThirdPartyPlugin,
  folder: string,
  foundAt: (origin: PluginOrigin) => void,
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
  foundAt({ ...originOf(source, url), hasGrants: grants !== undefined });
  const plugin = await importPlugin(name, url, at);
  if (Array.isArray(plugin) || grants === undefined) return plugin;
  const missing = missingGrants(plugin, grants);
  if (missing.length === 0) return plugin;
  const message = `the plugin "${name}" asks for more than its grants: ${missing.join(", ")}`;
  return [fault("SLUICE_PLUGIN_GRANTS", message, { at })];
}

function originOf(source: string, url: string): PluginOrigin {
  if (isPath(source)) return { from: "path", source };
  const installed = packageOf(url);
  if (installed === undefined) return { from: "link", source, file: fileURLToPath(url) };
  return { from: "package", source, version: installed.version };
}

const importedModules = new Map<string, string>();
export const pluginModules: ReadonlyMap<string, string> = importedModules;

function importShipped(
  name: string,
  { file, load }: ShippedPlugin,
  at: Position,
): Promise<Plugin | Fault[]> {
  return importPlugin(name, pathToFileURL(file).href, at, load);
}

/** `load`: imports the module. Only the published package imports a plugin in another way than by its URL. */
async function importPlugin(
  name: string,
  url: string,
  at: Position,
  load = (): Promise<unknown> => importModule(currentUrl(url)),
): Promise<Plugin | Fault[]> {
  importedModules.set(fileURLToPath(url), name);
  let module: unknown;
  try {
    module = await inTime(load());
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
  return checkedPlugin(name, plugin, at);
}

/** A module can wait at its top level, and a reload waits for it. */
const importMs = 30_000;

async function inTime(loading: Promise<unknown>): Promise<unknown> {
  // The timer keeps the process alive, so that `sluice check` can report the module.
  const module = await withinLimit(loading, importMs, keepingAlive);
  if (module !== late) return module;
  throw new Error(`the module was not evaluated within ${importMs / 1_000} s`);
}

function checkedPlugin(name: string, plugin: unknown, at: Position): Plugin | Fault[] {
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

/** Returns `file:line:column: message`, or only the message. `files`: the paths of the module and its local imports. */
async function describeImportError(error: unknown, files: readonly string[]): Promise<string> {
  const [message = ""] = String(error instanceof Error ? error.message : error).split(
    /\n| imported from /,
  );
  if (!(error instanceof Error)) return message;
  const isSyntax = error instanceof SyntaxError;
  const place = placeIn(error.stack ?? "") ?? (isSyntax ? await findPlace(files) : undefined);
  return place === undefined ? message : `${place}: ${message}`;
}

/** Finds the position in Node's output, which prints the position, the line and a marker before the error's name. */
function placeIn(text: string): string | undefined {
  const found = /^(?:file:\/\/)?(\/[^\n?]*?)(?:\?[^\n]*)?:(\d+)\n([^]*?)\n\n?\w*Error\b/.exec(text);
  if (found === null) return undefined;
  const [, file = "", line = "", shown = ""] = found;
  const marker = shown.split("\n").find((each) => /^\s*\^+\s*$/.test(each));
  // Without a marker the error is at the end of the line.
  const column =
    marker === undefined ? (shown.split("\n", 1)[0] ?? "").length : marker.indexOf("^");
  return `${decodeURI(file)}:${line}:${column + 1}`;
}

/** A syntax error in JavaScript does not contain its position, so `node --check` finds it. */
async function findPlace(files: readonly string[]): Promise<string | undefined> {
  for (const file of files.filter((each) => /\.[cm]?js$/.test(each)).slice(0, maxFiles)) {
    const printed = await promisify(execFile)(process.execPath, ["--check", file]).then(
      () => "",
      (error: unknown) => (error instanceof Error && "stderr" in error ? String(error.stderr) : ""),
    );
    const place = placeIn(printed);
    if (place !== undefined) return place;
  }
  return undefined;
}
