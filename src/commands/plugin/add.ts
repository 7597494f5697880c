/** `sluice plugin add`: installs a package of plugins and enters it in pipeline.yaml and pipeline.lock. */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { addEntry, hasKey, valueAt, yamlError } from "../../config/edit-yaml.ts";
import type { Grants } from "../../contract/permissions.ts";
import { contractVersion, supportsContract } from "../../contract/version.ts";
import { isObject } from "../../is-object.ts";
import { shippedPlugins } from "../../pipeline/load/load.ts";
import {
  grantsOfData,
  pluginFileName,
  readPluginFile,
  type InstalledPackage,
  type PluginData,
} from "../../pipeline/load/plugin-file.ts";
import {
  lockLine,
  lockPath,
  readLock,
  writeLock,
  type LockLine,
} from "../../pipeline/load/lock-file.ts";
import { UsageError, type CommandContext, type OptionValues } from "../command.ts";
import { optionText } from "../option.ts";
import type { Subcommand } from "../subcommand.ts";
import { PackageError } from "./find-plugins.ts";
import { install, packagesWithScripts } from "./install.ts";
import { missingOptions, placesIn, remainingStep } from "./missing-options.ts";
import { provenanceOf, type Provenance } from "./provenance.ts";
import { withPackage } from "./test.ts";

/** A plugin of the package. `source`: the value under `plugins:` in pipeline.yaml. */
interface Added {
  readonly source: string;
  readonly data: PluginData;
}

export const add: Subcommand = {
  options: ["list", "path", "require-provenance"],
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
      const plugins = pluginsOf(installed);
      const provenance = await provenanceOf(installed, spec, folder);
      if (values["require-provenance"] === true && provenance.state !== "verified") {
        const reason = `its provenance is not verified (${provenance.text})`;
        throw new PackageError(`${installed.name} was installed but not added: ${reason}`);
      }
      const text = changedText(installed, before, plugins, values);
      const lock = new Map(readLock(configFile));
      const isDowngrade = plugins.some(
        ({ source }) =>
          lock.get(source)?.provenance === "verified" && provenance.state !== "verified",
      );
      for (const { source, data } of plugins) {
        lock.set(source, { ...lineOf(installed, data), provenance: provenance.state });
      }
      writeFileSync(configFile, text);
      writeLock(configFile, lock);
      report(context, installed, plugins, text, provenance);
      if (withScripts.length > 0) {
        const names = withScripts.join(" ");
        context.printToStderr(
          `plugin add: the install scripts of ${names} did not run. If the plugin needs them, review them and run npm rebuild ${names}.`,
        );
      }
      for (const unused of unusedOptions(plugins, values)) {
        context.printToStderr(`plugin add: ${unused}.`);
      }
      if (isDowngrade) {
        context.printToStderr(
          "plugin add: the provenance of the earlier version was verified. Find out why this one differs before you start.",
        );
      }
      return 0;
    }),
};

/** Throws an error if pipeline.yaml has no place for the plugin, before anything is installed. */
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

/** Returns a sentence for each option that no plugin of the package needs. */
function unusedOptions(plugins: readonly Added[], values: OptionValues): string[] {
  const has = (kind: PluginData["kind"]): boolean => plugins.some(({ data }) => data.kind === kind);
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

/** Throws PackageError if the lines cannot be added to the text. */
function changedText(
  { name }: InstalledPackage,
  text: string,
  plugins: readonly Added[],
  values: OptionValues,
): string {
  try {
    return withLines(text, plugins, values);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new PackageError(`${name} was installed but not added: ${reason}`);
  }
}

/** Throws PackageError if a digest of the package is not possible. */
function lineOf(installed: InstalledPackage, data: PluginData): LockLine {
  try {
    return lockLine(installed, data);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new PackageError(`${installed.name} was installed but not added: ${reason}`);
  }
}

/** Throws PackageError if the package has no plugin that this gateway can load. */
function pluginsOf(installed: InstalledPackage): Added[] {
  const file = readPluginFile(installed);
  if (file === undefined || typeof file === "string") {
    const reason = file ?? `it has no ${pluginFileName}, which sluice plugin pack writes`;
    throw new PackageError(`${installed.name} was installed but not added: ${reason}`);
  }
  return Object.entries(file.plugins).map(([entry, data]) => {
    if (data.contract !== undefined && !supportsContract(data.contract)) {
      const wanted = `version ${data.contract} of the plugin contract; this release has ${contractVersion}`;
      throw new PackageError(`${installed.name} was installed but not added: it needs ${wanted}`);
    }
    if (shippedPlugins().has(data.name)) {
      const taken = `a plugin that ships with Sluice has the name ${data.name}, too`;
      throw new PackageError(`${installed.name} was installed but not added: ${taken}`);
    }
    return { source: `${installed.name}${entry.slice(1)}`, data };
  });
}

/**
 * Returns the text of pipeline.yaml with the plugins added under `plugins:`. Tools are also added under `tools:`, steps
 * to the list of `--list`, and surfaces to a route with the path of `--path` and the steps of a list. Entries that exist
 * stay as they are.
 */
function withLines(text: string, plugins: readonly Added[], values: OptionValues): string {
  const list = optionText(values, "list");
  const path = optionText(values, "path");
  const surfaces = plugins.filter(({ data }) => data.kind === "surface");
  if (path !== undefined && surfaces.length > 1) {
    const all = surfaces.map(({ data }) => data.name).join(", ");
    throw new Error(`--path adds a route for one surface, but the package has ${all}`);
  }
  let result = text;
  const addOnce = (place: readonly string[], entry: string, name: string): void => {
    if (placesIn(valueAt(result, place), name).length === 0)
      result = addEntry(result, place, entry, true);
  };
  for (const { source, data } of plugins) {
    const { name, kind } = data;
    const present = valueAt(result, ["plugins", name]);
    if (present === undefined) {
      result = addEntry(result, ["plugins"], `${name}: ${JSON.stringify(source)}`, false);
    } else if (present !== source) {
      const other = typeof present === "string" ? present : "something else";
      throw new Error(`the plugin ${name} is ${other}; remove it under \`plugins:\` first`);
    }
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

/** Returns the list that most routes of the file use. Undefined if none uses a list. */
function mostUsedList(text: string): string | undefined {
  const routes = valueAt(text, ["routes"]);
  const steps: unknown[] = Array.isArray(routes)
    ? routes.flatMap((route: unknown) => (isObject(route) ? route["run"] : []))
    : [];
  const names = steps.flatMap((step) =>
    isObject(step) && typeof step["use"] === "string" ? [step["use"]] : [],
  );
  const counted = [...Map.groupBy(names, (name) => name)];
  return counted.toSorted(([, a], [, b]) => b.length - a.length)[0]?.[0];
}

function report(
  { json, print, configFile }: CommandContext,
  { name, version }: InstalledPackage,
  plugins: readonly Added[],
  text: string,
  provenance: Provenance,
): void {
  const all = plugins.map(({ source, data }) => ({
    name: data.name,
    kind: data.kind,
    source,
    grants: grantsOfData(data),
    missingOptions: missingOptions(text, data),
  }));
  if (json) return print(JSON.stringify({ package: name, version, provenance, plugins: all }));
  print(`Installed ${name} ${version}.\nProvenance: ${provenance.text}.`);
  for (const { name: plugin, kind, grants } of all) {
    print(`\n${plugin} (${kind}) gets from the gateway:`);
    for (const line of grantLines(kind, grants)) print(`  ${line}`);
  }
  for (const { data } of plugins) {
    const run = data.kind === "surface" ? stepsOfRoute(text, data.name) : undefined;
    if (run !== undefined) print(`\nThe route of ${data.name} runs ${run}.`);
    const remaining = remainingStep(text, data);
    if (remaining !== undefined) print(`\nTo use ${data.name}, ${remaining}.`);
  }
  print(`\nWrote ${configFile} and ${lockPath(configFile)}.`);
  print(
    "A plugin is trusted code: it runs in the process of the gateway. Review it before you start.",
  );
}

/** Describes `run:` of the route to a surface. Undefined if there is none. */
function stepsOfRoute(text: string, surface: string): string | undefined {
  const routes = valueAt(text, ["routes"]);
  const route: unknown = Array.isArray(routes)
    ? routes.find((each: unknown) => isObject(each) && placesIn(each["to"], surface).length > 0)
    : undefined;
  if (!isObject(route)) return undefined;
  const { run: steps = [] } = route;
  if (Array.isArray(steps) && steps.length === 0) {
    return "no steps, so it is public and has no rate limit";
  }
  return `the steps ${JSON.stringify(steps)}, as \`run:\` says; check that they refuse whom they should`;
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
