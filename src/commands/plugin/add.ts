import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { registerHooks } from "node:module";
import { dirname } from "node:path";
import { addEntry, hasKey, valueAt, yamlError } from "../../config/edit-yaml.ts";
import { grantsOf, missingGrants, type Grants } from "../../contract/permissions.ts";
import { contractVersion, supportsContract } from "../../contract/version.ts";
import { isObject } from "../../base/is-object.ts";
import { shippedPlugins } from "../../pipeline/load/load.ts";
import type { InstalledPackage } from "../../pipeline/load/installed-package.ts";
import type { Plugin } from "../../plugin.ts";
import { UsageError, type CommandContext, type OptionValues } from "../command.ts";
import { optionText } from "../option.ts";
import type { Subcommand } from "../subcommand.ts";
import { findPlugins, PackageError, withPackage } from "./find-plugins.ts";
import { pluginProblems } from "../../pipeline/load/manifest.ts";
import { install, packagesWithScripts } from "./install.ts";
import { missingOptions, placesIn, remainingStep } from "./missing-options.ts";
import { messageOf } from "../../base/message-of.ts";

/** `source`: the module, as pipeline.yaml names it. */
interface Added {
  readonly source: string;
  readonly plugin: Plugin;
}

export const add: Subcommand = {
  options: ["list", "path"],
  arguments: ["PACKAGE"],
  run: (context, values, spec = "") =>
    withPackage(context, async () => {
      const { configFile } = context;
      if (!existsSync(configFile)) {
        throw new PackageError(`${configFile} does not exist; run sluice init first`);
      }
      const before = readFileSync(configFile, "utf8");
      checkPlaces(configFile, before, values);
      const folder = dirname(configFile);
      const scriptsBefore = new Set(packagesWithScripts(folder));
      const installed = await install(spec, folder);
      const withScripts = packagesWithScripts(folder).filter((name) => !scriptsBefore.has(name));
      const { plugins, text } = await withPlugins(before, installed, values);
      writeFileSync(configFile, text);
      report(context, installed, plugins, text);
      if (withScripts.length > 0) {
        const names = withScripts.join(" ");
        context.printToStderr(
          `plugin add: the install scripts of ${names} did not run. If the plugin needs them, review them and run npm rebuild ${names}.`,
        );
      }
      for (const unused of unusedOptions(plugins, values)) {
        context.printToStderr(`plugin add: ${unused}.`);
      }
      return 0;
    }),
};

/** Called before anything is installed. */
function checkPlaces(file: string, text: string, values: OptionValues): void {
  const list = optionText(values, "list");
  const path = optionText(values, "path");
  if (path !== undefined && !path.startsWith("/")) {
    throw new UsageError(`--path must begin with /, got "${path}"`);
  }
  const problem = yamlError(text);
  if (problem !== undefined) {
    throw new PackageError(`nothing was installed: ${file} is not valid YAML: ${problem}`);
  }
  if (list === undefined || hasKey(text, ["lists"], list)) return;
  const lists = Object.keys(Object(valueAt(text, ["lists"])) as object);
  const known = lists.length === 0 ? "it has no lists" : `its lists are ${lists.join(", ")}`;
  throw new PackageError(`nothing was installed: ${file} has no list "${list}"; ${known}`);
}

function unusedOptions(plugins: readonly Added[], values: OptionValues): string[] {
  const has = (kind: Plugin["kind"]): boolean => plugins.some(({ plugin }) => plugin.kind === kind);
  const usesList = has("step") || (has("surface") && values["path"] !== undefined);
  return [
    ...(values["list"] !== undefined && !usesList
      ? ["--list has no effect, because the package has no step and no surface with --path"]
      : []),
    ...(values["path"] !== undefined && !has("surface")
      ? ["--path has no effect, because the package has no surface"]
      : []),
  ];
}

/** Returns the plugins, and the text with their lines. Throws PackageError if they cannot be added. */
async function withPlugins(
  text: string,
  installed: InstalledPackage,
  values: OptionValues,
): Promise<{ readonly plugins: readonly Added[]; readonly text: string }> {
  try {
    const plugins = await pluginsOf(installed);
    return { plugins, text: withLines(text, plugins, values) };
  } catch (error) {
    const message = `${installed.name} was installed but not added: ${messageOf(error)}`;
    throw new PackageError(message, { cause: error });
  }
}

/** Throws an Error if the package has no plugins that this gateway can load. */
async function pluginsOf({ folder, name }: InstalledPackage): Promise<Added[]> {
  const hook = ownPackageHook();
  const found = await findPlugins(folder).finally(() => hook.deregister());
  return found.map(({ entry, plugin }) => {
    const [problem] = pluginProblems(plugin);
    if (problem !== undefined) throw new Error(problem);
    if (plugin.contract !== undefined && !supportsContract(plugin.contract)) {
      const wanted = `version ${plugin.contract} of the plugin contract; this release has ${contractVersion}`;
      throw new Error(`it needs ${wanted}`);
    }
    if (shippedPlugins().has(plugin.name)) {
      throw new Error(`a plugin that ships with Sluice has the name ${plugin.name}, too`);
    }
    return { source: `${name}${entry.slice(1)}`, plugin };
  });
}

/** The gateway is a peer of its plugins. If it is not installed next to them, their imports resolve to this gateway. */
function ownPackageHook(): { deregister(): void } {
  return registerHooks({
    resolve(specifier, context, next) {
      if (!specifier.startsWith("sluice-gateway/")) return next(specifier, context);
      try {
        return next(specifier, context);
      } catch {
        return next(specifier, { ...context, parentURL: import.meta.url });
      }
    },
  });
}

function entryOf({ source, plugin }: Added): string {
  const { body, ...lists } = grantsOf(plugin);
  const given = Object.entries(lists).filter(([, values]) => values.length > 0);
  const grants = Object.fromEntries<unknown>(given);
  if (plugin.kind === "step" && body !== "none") grants["body"] = body;
  return `{ from: ${JSON.stringify(source)}, grants: ${JSON.stringify(grants)} }`;
}

/**
 * Adds the plugins under `plugins:`. Tools are also added under `tools:`, steps to the list of `--list`, and surfaces
 * to a route with the path of `--path` and the steps of a list. Entries that exist stay as they are.
 */
function withLines(text: string, plugins: readonly Added[], values: OptionValues): string {
  const list = optionText(values, "list");
  const path = optionText(values, "path");
  const surfaces = plugins.filter(({ plugin }) => plugin.kind === "surface");
  if (path !== undefined && surfaces.length > 1) {
    const all = surfaces.map(({ plugin }) => plugin.name).join(", ");
    throw new Error(`--path adds a route for one surface, but the package has ${all}`);
  }
  let result = text;
  const addOnce = (place: readonly string[], entry: string, name: string): void => {
    if (placesIn(valueAt(result, place), name).length === 0)
      result = addEntry(result, place, entry, true);
  };
  for (const added of plugins) {
    const { name, kind } = added.plugin;
    const present = valueAt(result, ["plugins", name]);
    if (present === undefined) {
      result = addEntry(result, ["plugins"], `${name}: ${entryOf(added)}`, false);
    } else checkPresent(added, present);
    if (kind === "tools") addOnce(["tools"], name, name);
    if (kind === "step" && list !== undefined) addOnce(["lists", list], name, name);
    if (kind === "surface" && path !== undefined) {
      const guard = list ?? mostUsedList(text);
      const steps = guard === undefined ? "[]" : `[{ use: ${guard} }]`;
      addOnce(["routes"], `{ path: ${JSON.stringify(path)}, run: ${steps}, to: ${name} }`, name);
    }
  }
  return result;
}

/** Throws an Error if the value under `plugins:` is another plugin, or grants less than the plugin asks for. */
function checkPresent({ source, plugin }: Added, present: unknown): void {
  const { name } = plugin;
  const from = isObject(present) ? present["from"] : present;
  if (from !== source) {
    const other = typeof from === "string" ? from : "something else";
    throw new Error(`the plugin ${name} is ${other}; remove it under \`plugins:\` first`);
  }
  const grants = isObject(present) ? present["grants"] : undefined;
  if (!isObject(grants)) return;
  const { body: _, ...lists } = grants;
  const wrong = Object.keys(lists).find((member) => !Array.isArray(lists[member]));
  if (wrong !== undefined) throw new Error(`grants.${wrong} of the plugin ${name} must be a list`);
  const missing = missingGrants(plugin, grants);
  if (missing.length === 0) return;
  throw new Error(
    `the plugin ${name} asks for more than its grants: ${missing.join(", ")}; review it, and add this to \`grants\` under \`plugins:\``,
  );
}

function routesIn(text: string): readonly Readonly<Record<string, unknown>>[] {
  const routes = valueAt(text, ["routes"]);
  return Array.isArray(routes) ? routes.filter(isObject) : [];
}

/** Undefined if no route uses a list. */
function mostUsedList(text: string): string | undefined {
  const names = routesIn(text)
    .flatMap(({ run }) => run)
    .flatMap((step) => (isObject(step) && typeof step["use"] === "string" ? [step["use"]] : []));
  const counted = [...Map.groupBy(names, (name) => name)];
  return counted.toSorted(([, a], [, b]) => b.length - a.length)[0]?.[0];
}

function report(
  { json, print, configFile }: CommandContext,
  { name, version }: InstalledPackage,
  plugins: readonly Added[],
  text: string,
): void {
  const all = plugins.map(({ source, plugin }) => ({
    name: plugin.name,
    kind: plugin.kind,
    source,
    grants: grantsOf(plugin),
    missingOptions: missingOptions(text, plugin),
  }));
  if (json) return print(JSON.stringify({ package: name, version, plugins: all }));
  print(`Installed ${name} ${version}.`);
  for (const { name: plugin, kind, grants } of all) {
    print(`\n${plugin} (${kind}) gets from the gateway:`);
    for (const line of grantLines(kind, grants)) print(`  ${line}`);
  }
  for (const { plugin } of plugins) {
    const run = plugin.kind === "surface" ? stepsOfRoute(text, plugin.name) : undefined;
    if (run !== undefined) print(`\nThe route of ${plugin.name} runs ${run}.`);
    const remaining = remainingStep(text, plugin);
    if (remaining !== undefined) print(`\nTo use ${plugin.name}, ${remaining}.`);
  }
  print(`\nWrote ${configFile}.`);
  print(
    "A plugin is trusted code: it runs in the process of the gateway. Review it before you start.",
  );
}

function stepsOfRoute(text: string, surface: string): string | undefined {
  const route = routesIn(text).find(({ to }) => placesIn(to, surface).length > 0);
  if (route === undefined) return undefined;
  const { run: steps = [] } = route;
  if (Array.isArray(steps) && steps.length === 0) {
    return "no steps, so it is public and has no rate limit";
  }
  return `the steps ${JSON.stringify(steps)}, as \`run:\` says; check that they refuse unauthorized callers`;
}

function grantLines(kind: string, { services, hosts, env, body, deployment }: Grants): string[] {
  const list = (values: readonly string[]): string => values.join(", ") || "none";
  return [
    `services              ${list(services)}`,
    `servers               ${list(hosts).replace(/^\*$/, "any")}`,
    `environment variables ${list(env)}`,
    // Only steps see the bodies of others.
    ...(kind === "step" ? [`bodies                ${body}`] : []),
    `deployment            ${list(deployment)}`,
  ];
}
