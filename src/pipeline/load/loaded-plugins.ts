import { grantsOf } from "../../contract/permissions.ts";
import { callFailure } from "../../base/errors.ts";
import type { RenderedMetrics } from "../../base/metrics.ts";
import type { LoadedPlugin, Plugin, PluginFacts } from "../../plugin.ts";
import { version } from "../../base/version.ts";

export interface PluginOrigin {
  readonly from: "package" | "link" | "path" | "code";
  readonly source: string | undefined;
  /** Path of its module, if its package is a link to local code (`link`). */
  readonly file?: string;
  readonly version?: string | undefined;
  readonly hasGrants?: boolean;
}

/** Returns the facts of the plugins, in alphabetical order. `origins`: has no entry for plugins that ship with Sluice. */
export function pluginFacts(
  plugins: ReadonlyMap<string, Plugin>,
  origins: ReadonlyMap<string, PluginOrigin>,
): PluginFacts[] {
  return [...plugins.values()]
    .map((plugin) => factsOf(plugin, origins.get(plugin.name)))
    .toSorted((a, b) => (a.name < b.name ? -1 : 1));
}

function factsOf(plugin: Plugin, found: PluginOrigin | undefined): PluginFacts {
  const { name, kind, description, contract } = plugin;
  return {
    name,
    kind,
    description,
    version: found === undefined ? version : found.version,
    contract,
    origin: found?.from ?? "sluice",
    source: found?.source,
    hasGrants: found?.hasGrants === true,
    grants: grantsOf(plugin),
  };
}

type ReadMetrics = Pick<RenderedMetrics, "read">;

export function withCounts(
  facts: readonly PluginFacts[],
  metrics: ReadMetrics,
): readonly LoadedPlugin[] {
  const counts = countsOfAll(metrics);
  return facts.map((plugin) => ({
    ...plugin,
    hooks: [...(counts.get(plugin.name)?.entries() ?? [])].map(([hook, found]) => ({
      hook,
      ...found,
    })),
  }));
}

interface Sums {
  timed: number;
  seconds: number;
  errors: number;
  timeouts: number;
  readonly refusals: Record<string, number>;
  readonly failures: Record<string, number>;
}

function noCounts(): Sums {
  return { timed: 0, seconds: 0, refusals: {}, failures: {}, errors: 0, timeouts: 0 };
}

function countsOfAll(metrics: ReadMetrics): Map<string, Map<string, Sums>> {
  const all = new Map<string, Map<string, Sums>>();
  const sumsOf = ({ step, plugin = step, hook = "request" }: Labels): Sums => {
    const hooks = all.get(plugin ?? "") ?? new Map<string, Sums>();
    all.set(plugin ?? "", hooks);
    const sums = hooks.get(hook) ?? noCounts();
    hooks.set(hook, sums);
    return sums;
  };
  for (const family of ["sluice_step", "sluice_plugin"]) {
    for (const name of ["timed", "seconds", "errors", "timeouts"] as const) {
      for (const { labels, value } of metrics.read(`${family}_${name}_total`)) {
        sumsOf(labels)[name] += value;
      }
    }
    for (const { labels, value } of metrics.read(`${family}_refusals_total`)) {
      const { code = "" } = labels;
      const { refusals, failures } = sumsOf(labels);
      const byCode = callFailure(code).isFailure === true ? failures : refusals;
      byCode[code] = (byCode[code] ?? 0) + value;
    }
  }
  return all;
}

type Labels = Readonly<Record<string, string>>;
