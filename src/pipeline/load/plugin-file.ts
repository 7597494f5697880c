/**
 * The file `sluice-plugin.json` of a package: the manifests of its plugins as data. `sluice plugin pack` writes it, and
 * `sluice check` reads it in place of the code, so that a check runs no code of an installed package.
 */
import { existsSync, readFileSync, realpathSync } from "node:fs";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { stableJson } from "../../canonical-json.ts";
import { grantsOf, type Grants } from "../../contract/permissions.ts";
import { isObject } from "../../is-object.ts";
import type { Operation, Plugin } from "../../plugin.ts";

export const pluginFileName = "sluice-plugin.json";
/** Increases when an older gateway could not read the file. */
export const pluginFileFormat = 1;

/** A manifest without its functions. */
export type PluginData = Readonly<Record<string, unknown>> &
  Pick<Plugin, "kind" | "name" | "description" | "contract" | "options" | "permissions"> & {
    /** An example of what `operation` returns, for the catalogue. */
    readonly operation?: Operation;
  };

export interface PluginFile {
  readonly format: number;
  readonly package: string;
  readonly version: string;
  /** The plugins by the name of their export: `.` or `./tenant`. */
  readonly plugins: Readonly<Record<string, PluginData>>;
}

/** A package in a node_modules folder. */
export interface InstalledPackage {
  readonly folder: string;
  readonly name: string;
  readonly version: string;
}

/**
 * Returns the package of an installed module. Undefined for a module outside of node_modules, which is local code. A
 * package without a package.json is known by its folder.
 */
export function packageOf(url: string): InstalledPackage | undefined {
  const found = /^(.*\/node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(url)?.[1];
  if (found === undefined) return undefined;
  const folder = fileURLToPath(found);
  return packageIn(folder) ?? { folder, name: basename(folder), version: "" };
}

/** Returns the name of the package that a path or URL leads into. Undefined without a folder node_modules in it. */
export function packageInPath(path: string): string | undefined {
  return /(?:^|.*\/)node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(path)?.[1];
}

/** Returns the manifest of a plugin in the file of its package. `source`: its value under `plugins:`. */
export function dataIn({ plugins }: PluginFile, source: string): PluginData | undefined {
  return plugins[source.replace(/^(?:@[^/]+\/)?[^/]+/, ".")];
}

/** Returns whether the folder of a package in node_modules is a link to local code, as `npm link` makes it. */
export function isLinked({ folder }: InstalledPackage): boolean {
  return !`${realpathSync(folder)}/`.includes("/node_modules/");
}

/** Returns the package in a folder. Undefined without a package.json that has a name. */
export function packageIn(folder: string): InstalledPackage | undefined {
  const manifest = readJson(join(folder, "package.json"));
  if (!isObject(manifest)) return undefined;
  const { name, version } = manifest;
  if (typeof name !== "string") return undefined;
  return { folder, name, version: typeof version === "string" ? version : "" };
}

/** Returns the file of a package, undefined if it has none, or the reason why the file cannot be used. */
export function readPluginFile({ folder }: InstalledPackage): PluginFile | string | undefined {
  const path = join(folder, pluginFileName);
  if (!existsSync(path)) return undefined;
  const value = readJson(path);
  if (!isObject(value) || !isObject(value["plugins"]))
    return `${path} must contain a JSON object with the member "plugins"`;
  if (value["format"] !== pluginFileFormat) {
    return `${path} has the format ${String(value["format"])}; expected ${pluginFileFormat}`;
  }
  // The manifests themselves are checked like those of modules.
  return value as unknown as PluginFile;
}

function readJson(path: string): unknown {
  try {
    return JSON.parse(readFileSync(path, "utf8"));
  } catch {
    return undefined;
  }
}

/** Returns the members of a manifest that are data. */
export function dataOf(plugin: Plugin): PluginData {
  const members = Object.entries(plugin).filter(
    ([, value]) => value !== undefined && typeof value !== "function",
  );
  // A JSON Schema may contain values that JSON cannot express. The file does not contain them.
  return JSON.parse(JSON.stringify(Object.fromEntries(members))) as PluginData;
}

/** Returns whether the code has the manifest that the file contains. */
export function matchesData(plugin: Plugin, { operation: _, ...data }: PluginData): boolean {
  return stableJson(dataOf(plugin)) === stableJson(data);
}

const withoutCode = new WeakSet<Plugin>();

/** Returns a plugin that has a manifest and cannot be started. */
export function pluginFromData({ operation: _, ...data }: PluginData): Plugin {
  const start = (): never => {
    throw new Error(`the code of the plugin "${data.name}" was not loaded`);
  };
  // The manifest is checked like that of a module.
  const plugin = { ...data, start } as unknown as Plugin;
  withoutCode.add(plugin);
  return plugin;
}

/** Returns whether the plugin was made by `pluginFromData`. */
export function isDataOnly(plugin: Plugin | undefined): boolean {
  return plugin !== undefined && withoutCode.has(plugin);
}

/** Returns the grants of the plugin. */
export function grantsOfData(data: PluginData): Grants {
  return grantsOf(data);
}
