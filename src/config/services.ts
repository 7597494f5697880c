import type { Plugin, Service } from "../plugin.ts";
import type { Config, PluginUse } from "./config.ts";
import { fault, type Fault } from "./fault.ts";
import { nearest } from "./nearest.ts";
import { gatewaySections } from "./schema.ts";
import { sectionsOf } from "./sections.ts";

const builtInServices = ["gateway", "routes", "tools"] as const;

export function isBuiltIn(name: string): boolean {
  return (builtInServices as readonly string[]).includes(name);
}

export function servicesOf(plugin: Pick<Plugin, "uses" | "usesIfInstalled">): readonly string[] {
  return [...(plugin.uses ?? []), ...(plugin.usesIfInstalled ?? [])];
}

type Plugins = ReadonlyMap<string, Plugin>;

/**
 * Returns every service that runs: third-party services, with or without a section, and those in use that ship with
 * Sluice. `found`: the faults of the file. A service whose sections have faults is not complete.
 */
export function declaredServices(
  config: Config,
  plugins: Plugins,
  found: readonly Fault[],
): PluginUse[] {
  const withSection = new Set(config.services.map(({ name }) => name));
  const others = [...config.plugins].filter(
    ([name]) => !withSection.has(name) && plugins.get(name)?.kind === "service",
  );
  return [
    ...config.services,
    ...others.map(([name, { at }]) => ({ name, at, options: {}, positionOf: () => at })),
    ...[...plugins.values()].flatMap((plugin) =>
      plugin.kind === "service" && !config.plugins.has(plugin.name)
        ? [shippedService(config, plugin, found)]
        : [],
    ),
  ];
}

function shippedService(
  config: Config,
  service: Service<never>,
  found: readonly Fault[],
): PluginUse {
  const sections = sectionsOf(service);
  const faulty = found.flatMap(({ at }) => (at === undefined ? [] : (config.sectionOf(at) ?? [])));
  return {
    name: service.name,
    at: config.keyAt(`/${sections[0] ?? ""}`),
    options: Object.fromEntries(
      sections.flatMap((section) => {
        const value = config.sections[section];
        return value === undefined ? [] : [[section, value]];
      }),
    ),
    positionOf: (pointer) => config.keyAt(pointer),
    incomplete: sections.some((section) => faulty.includes(section)),
  };
}

/** The members of a cycle keep their order. */
export function startOrder(services: readonly PluginUse[], plugins: Plugins): PluginUse[] {
  const byName = new Map(services.map((service) => [service.name, service]));
  const ordered = new Set<PluginUse>();
  const visit = (service: PluginUse, path: ReadonlySet<PluginUse>): void => {
    if (path.has(service)) return;
    for (const name of servicesOf(plugins.get(service.name) ?? {})) {
      const used = byName.get(name);
      if (used !== undefined) visit(used, new Set([...path, service]));
    }
    ordered.add(service);
  };
  for (const service of services) visit(service, new Set());
  return [...ordered];
}

/** Returns the services that use `name`, directly or through others. `services`: in start order. */
export function dependents(
  name: string,
  services: readonly PluginUse[],
  plugins: Plugins,
): ReadonlySet<string> {
  const found = new Set<string>();
  for (const service of services) {
    const used = servicesOf(plugins.get(service.name) ?? {});
    if (used.some((each) => each === name || found.has(each))) found.add(service.name);
  }
  return found;
}

export function serviceFaults(
  uses: readonly PluginUse[],
  services: readonly PluginUse[],
  plugins: Plugins,
  config: Config,
): Fault[] {
  const known = [...services.map(({ name }) => name), ...builtInServices];
  const unknown = uses.flatMap(({ name, at }) =>
    (plugins.get(name)?.uses ?? [])
      .filter((service) => !known.includes(service))
      .map((service) => {
        const message = `"${name}" uses the unknown service "${service}"`;
        const didYouMean = nearest(service, known);
        return fault("SLUICE_SERVICE_UNKNOWN", message, { at, didYouMean });
      }),
  );
  const misnamed = services
    .filter(({ name }) => plugins.has(name) && config.plugins.has(name))
    .filter(({ name }) => gatewaySections.has(name) || name in config.sections || isBuiltIn(name))
    .map(({ name, at }) => {
      const message = `a service cannot have the name "${name}", because the gateway has a section with this name`;
      return fault("SLUICE_PLUGIN_SHADOWS", message, { at, remedy: "Rename the plugin." });
    });
  return [...unknown, ...misnamed, ...cycles(config, services, plugins)];
}

/** The service `tools` depends on every plugin of kind `tools`. */
function cycles({ tools }: Config, services: readonly PluginUse[], plugins: Plugins): Fault[] {
  const faults: Fault[] = [];
  const reported = new Set<string>();
  const usedBy = (name: string): readonly string[] =>
    name === "tools" ? tools.map((use) => use.name) : servicesOf(plugins.get(name) ?? {});
  const follow = (name: string, path: readonly string[]): void => {
    const start = path.indexOf(name);
    if (start === -1) {
      for (const next of usedBy(name)) follow(next, [...path, name]);
      return;
    }
    const cycle = path.slice(start);
    if (cycle.some((member) => reported.has(member))) return;
    for (const member of cycle) reported.add(member);
    const at = [...tools, ...services].find((use) => cycle.includes(use.name))?.at;
    const message = cycle.includes("tools")
      ? "a plugin of kind `tools` uses a service that starts after all tools"
      : "services use each other in a cycle";
    const names = [...cycle, name].join(" → ");
    faults.push(fault("SLUICE_SERVICE_CYCLE", `${message}: ${names}`, { at }));
  };
  for (const { name } of [...tools, ...services]) follow(name, []);
  return faults;
}
