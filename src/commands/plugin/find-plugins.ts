/** The plugins are the default exports of the modules that package.json exports. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { isObject } from "../../base/is-object.ts";
import { importModule } from "../../import-module.ts";
import { pluginProblems } from "../../pipeline/load/manifest.ts";
import type { Plugin } from "../../plugin.ts";
import type { StepExample } from "../../testing/test-plugin.ts";
import type { CommandContext } from "../command.ts";

export interface FoundPlugin {
  /** Name of the export: `.` or `./tenant`. */
  readonly entry: string;
  /** Path relative to the folder: `./index.ts`. */
  readonly file: string;
  readonly plugin: Plugin;
  /** Loads the module once more, with variables of its own. */
  readonly loadAgain: () => Promise<Plugin>;
  /** Default export of `<module>.example.ts`, which contains what the plugin needs around it. */
  readonly example: StepExample;
}

/** The message contains the reason why a package cannot be used and, if there is one, the remedy. */
export class PackageError extends Error {}

export async function withPackage(
  context: CommandContext,
  work: () => Promise<0 | 1>,
): Promise<0 | 1> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof PackageError)) throw error;
    context.printToStderr(`plugin: ${error.message}`);
    return 1;
  }
}

/** Returns modules by the name of their export. Throws PackageError without `name`, `version` or `exports`. */
function exportedModules(folder: string): Readonly<Record<string, string>> {
  const path = join(folder, "package.json");
  if (!existsSync(path)) {
    throw new PackageError(
      `${path} does not exist; run this in the folder of a package of plugins, or name it as FOLDER`,
    );
  }
  let value: unknown;
  try {
    value = JSON.parse(readFileSync(path, "utf8"));
  } catch (error) {
    throw new PackageError(`${path} cannot be read: ${String(error)}`);
  }
  if (!isObject(value)) throw new PackageError(`${path} must contain a JSON object`);
  const { name, version, exports } = value;
  if (typeof name !== "string" || typeof version !== "string") {
    throw new PackageError(`${path} must have \`name\` and \`version\``);
  }
  const given = typeof exports === "string" ? { ".": exports } : exports;
  const entries = Object.entries(isObject(given) ? given : {}).flatMap(([entry, target]) => {
    const file: unknown = isObject(target) ? target["default"] : target;
    return typeof file === "string" ? [[entry, file] as const] : [];
  });
  if (entries.length === 0) {
    throw new PackageError(
      `${path} must have \`exports\` with one module per plugin, such as { ".": "./dist/index.js" }`,
    );
  }
  return Object.fromEntries(entries);
}

/** Throws PackageError if there is no plugin, or if a module cannot be imported. */
export async function findPlugins(folder: string): Promise<FoundPlugin[]> {
  const found: FoundPlugin[] = [];
  for (const [entry, file] of Object.entries(exportedModules(folder))) {
    if (!/\.[cm]?[jt]s$/.test(file)) continue;
    const plugin = await defaultOf(join(folder, file));
    const problems = pluginProblems(plugin);
    if (problems.length > 0 && !(isObject(plugin) && "kind" in plugin)) continue;
    // The contract suite reports the problems of a manifest that has a kind.
    found.push({
      entry,
      file,
      plugin: plugin as Plugin,
      loadAgain: async () => (await defaultOf(join(folder, file), `?copy=${++copies}`)) as Plugin,
      example: await exampleOf(folder, file),
    });
  }
  if (found.length > 0) return found;
  throw new PackageError(
    `${folder}: no module under \`exports\` has a plugin as its default export`,
  );
}

async function exampleOf(folder: string, file: string): Promise<StepExample> {
  const path = join(folder, file.replace(/\.([cm]?[jt]s)$/, ".example.$1"));
  if (!existsSync(path)) return {};
  const example = await defaultOf(path);
  if (isObject(example)) return example;
  throw new PackageError(`${path}: the default export must be an object`);
}

/** Modules with different queries are different modules to Node, although they have the same file. */
let copies = 0;

async function defaultOf(path: string, query = ""): Promise<unknown> {
  if (!existsSync(path)) {
    throw new PackageError(`${path} does not exist; build the package first: npm run build`);
  }
  try {
    const module: unknown = await importModule(pathToFileURL(path).href + query);
    return isObject(module) ? module["default"] : undefined;
  } catch (error) {
    const isMissing = error instanceof Error && error.message.startsWith("Cannot find package");
    const remedy = isMissing ? "; run npm install first" : "";
    throw new PackageError(`${path} cannot be imported: ${String(error)}${remedy}`);
  }
}
