import { isContainer, isObject } from "../base/is-object.ts";
import { pointerKey } from "../base/json-pointer.ts";
import type { JsonSchema, Plugin } from "../plugin.ts";
import type { Config, PluginUse, RouteConfig, StepUse } from "./config.ts";
import { fault, type Fault } from "./fault.ts";
import { locate } from "./located.ts";
import { nearest } from "./nearest.ts";
import { proveChains, type StepChain } from "./order.ts";
import { routeFaults } from "./routes.ts";
import { sectionsOf } from "./sections.ts";
import { declaredServices, serviceFaults, servicesOf, startOrder } from "./services.ts";
import { isReadable, startablePart } from "./startable.ts";
import { validate } from "./validate.ts";
import { messageOf } from "../base/message-of.ts";

export interface CheckedConfig {
  readonly config: Config;
  /** The configuration without uses that have a fault and without plugins that did not load. */
  readonly startable: Config;
  readonly faults: readonly Fault[];
}

/** Skips missing plugins, because `loadPlugins` has reported them. `found`: the faults of the file itself. */
export function checkPlugins(
  config: Config,
  plugins: ReadonlyMap<string, Plugin>,
  found: readonly Fault[] = [],
): CheckedConfig {
  const faults: Fault[] = [];
  const completed = new Map<PluginUse, PluginUse>();
  const broken = new Set<PluginUse>();

  function complete<U extends PluginUse>(use: U, kind: Plugin["kind"]): U {
    const known = completed.get(use);
    // The value was made from the same use, so it has the same type.
    if (known !== undefined) return known as U;
    const plugin = plugins.get(use.name);
    const before = faults.length;
    let result = use;
    if (plugin !== undefined && plugin.kind !== kind) {
      faults.push(wrongKind(use, plugin, kind));
    } else if (plugin !== undefined && use.incomplete !== true) {
      const checked = checkOptions(use, plugin);
      faults.push(...checked.faults);
      result = { ...use, options: checked.options };
    }
    completed.set(use, result);
    const canBeRead =
      isReadable(use) || (plugin?.kind === "service" && plugin.dryRun !== undefined);
    const isStartable = plugin !== undefined && faults.length === before && canBeRead;
    if (!isStartable || !upstreamsExist(result, plugin, config)) broken.add(result);
    return result;
  }

  const steps = (uses: readonly StepUse[]): StepUse[] => uses.map((use) => complete(use, "step"));
  const routes = config.routes.map((route) => {
    for (const use of route.off ?? []) complete(use, "step");
    return { ...route, run: steps(route.run), to: complete(route.to, "surface") };
  });
  for (const use of config.unmatchedOff ?? []) complete(use, "step");
  const tools = config.tools.map((use) => complete(use, "tools"));
  const services = startOrder(
    declaredServices(config, plugins, found).map((use) => complete(use, "service")),
    plugins,
  );
  const whole: Config = { ...config, routes, tools, services, unmatched: steps(config.unmatched) };
  faults.push(...proveChains(linesOf(whole), plugins));
  faults.push(...routeFaults(whole), ...webSocketFaults(whole, plugins));
  faults.push(...unknownUpstreams(whole, plugins));
  faults.push(...serviceFaults([...allUses(whole), ...services], services, plugins, config));
  if (whole.routes.length > 0) {
    faults.push(...unusedPlugins(whole, plugins), ...unusedUpstreams(whole));
  }
  return { config: whole, startable: startablePart(whole, (use) => !broken.has(use)), faults };
}

/** An entry that could not be read has no `urls`. */
function upstreamsOf({ keysOf, sections }: Config): ReadonlyMap<string, unknown> {
  const section = sections["upstreams"];
  const entries = new Map<string, unknown>(Object.entries(isObject(section) ? section : {}));
  return new Map(keysOf("/upstreams").map((name) => [name, entries.get(name)]));
}

function upstreamsExist(use: PluginUse, plugin: Plugin, config: Config): boolean {
  const upstreams = upstreamsOf(config);
  const texts = new Set<string>();
  collectTexts(use.options, texts);
  const isUnreadable = (name: string): boolean => {
    const entry = upstreams.get(name);
    return upstreams.has(name) && !(isObject(entry) && "urls" in entry);
  };
  return (
    upstreamNames(use, plugin).every(([, name]) => upstreams.has(name)) &&
    ![...texts].some(isUnreadable)
  );
}

function linesOf(config: Config): StepChain[] {
  return [
    ...config.routes.map((route) => ({
      title: routeTitle(route),
      steps: route.run,
      surface: route.to,
      off: route.off ?? [],
      incomplete: route.incomplete ?? false,
      route,
    })),
    {
      title: "unmatched requests",
      steps: config.unmatched,
      surface: undefined,
      off: config.unmatchedOff ?? [],
      incomplete: config.unmatchedIncomplete ?? false,
      route: undefined,
    },
  ];
}

/** Returns `GET,POST /path`, `/path` for any method, or `websocket /path`. */
export function routeTitle(route: Pick<RouteConfig, "path" | "methods" | "websocket">): string {
  if (route.websocket) return `websocket ${route.path}`;
  return route.methods.includes("*") ? route.path : `${route.methods.join(",")} ${route.path}`;
}

const places = {
  step: { is: "a step", in: "in a list of steps", remedy: "Use it in `run:` or in a list" },
  surface: { is: "a surface", in: "at `to:`", remedy: "Use it at the `to:` of a route" },
  tools: { is: "a tools plugin", in: "under `tools:`", remedy: "List it under `tools:`" },
  service: {
    is: "a service",
    in: "as a section at the top level",
    remedy: "Write its options in a section with its name, at the top level of the file,",
  },
} as const;

function wrongKind(use: PluginUse, plugin: Plugin, wanted: Plugin["kind"]): Fault {
  const message = `"${use.name}" is ${places[plugin.kind].is}, but it is used ${places[wanted].in}`;
  const remedy = `${places[plugin.kind].remedy} instead.`;
  return fault("SLUICE_PLUGIN_KIND", message, { at: use.at, remedy });
}

const noOptions = { type: "object", properties: {}, additionalProperties: false };

function checkOptions(
  use: PluginUse,
  plugin: Plugin,
): { options: PluginUse["options"]; faults: readonly Fault[] } {
  // The sections of a service that ships with Sluice have been checked with the file.
  if (plugin.kind === "service" && sectionsOf(plugin).length > 0) {
    return { options: use.options, faults: [] };
  }
  const node = use.source ?? locate(use.options, use.at);
  const schema = plugin.options ?? noOptions;
  try {
    const { value, faults } = validate(node, schema, { label: use.name, own: use.at });
    if (plugin.kind === "service" && use.source === undefined && faults.length > 0) {
      return { options: use.options, faults: [missingSection(use, schema)] };
    }
    // load.ts accepts only schemas of objects. If the options are not an object, `validate` returns an empty one.
    return { options: value as PluginUse["options"], faults };
  } catch (error) {
    const reason = messageOf(error);
    const message = `the options schema of plugin "${use.name}" is not a valid JSON Schema: ${reason}`;
    return {
      options: use.options,
      faults: [fault("SLUICE_PLUGIN_SCHEMA", message, { at: use.at })],
    };
  }
}

function missingSection({ name, at }: PluginUse, { required }: JsonSchema): Fault {
  const message = `the service "${name}" has no section`;
  const keys = Array.isArray(required) ? ` with the keys ${required.join(", ")}` : "";
  const remedy = `Add the section \`${name}:\`${keys}.`;
  return fault("SLUICE_KEY_MISSING", message, { at, remedy });
}

/** A surface answers either requests or WebSocket upgrades. `websocket` of its routes must match. */
function webSocketFaults(config: Config, plugins: ReadonlyMap<string, Plugin>): Fault[] {
  return config.routes.flatMap(({ websocket, to, at }) => {
    const surface = plugins.get(to.name);
    if (surface?.kind !== "surface" || (surface.websocket ?? false) === websocket) return [];
    const [message, remedy] = websocket
      ? [
          `"${to.name}" does not answer WebSocket upgrades`,
          "Remove `websocket: true`, or use another surface.",
        ]
      : [
          `"${to.name}" answers only WebSocket upgrades`,
          "Write `websocket: true` instead of `methods:`.",
        ];
    return [fault("SLUICE_ROUTE_WEBSOCKET", message, { at, remedy })];
  });
}

export function allUses(config: Config): PluginUse[] {
  return [
    ...config.routes.flatMap((route) => [...route.run, ...(route.off ?? []), route.to]),
    ...config.unmatched,
    ...(config.unmatchedOff ?? []),
    ...config.tools,
  ];
}

function unusedPlugins(config: Config, plugins: ReadonlyMap<string, Plugin>): Fault[] {
  const uses = [...allUses(config), ...config.services];
  const names = new Set<string>(uses.flatMap(({ name }) => servicesOf(plugins.get(name) ?? {})));
  for (const { name } of allUses(config)) names.add(name);
  // A service with a section can work without a plugin that uses it, as an exporter does. One without has the place of
  // its plugin.
  for (const { name, at } of config.services) {
    const hasSection = at !== config.plugins.get(name)?.at;
    if (hasSection && plugins.get(name)?.kind === "service") names.add(name);
  }
  const meant = [...names].map((name) => nearest(name, config.plugins.keys()));
  return [...config.plugins].flatMap(([name, { at }]) =>
    names.has(name) || meant.includes(name)
      ? []
      : [fault("SLUICE_PLUGIN_UNUSED", `unused plugin "${name}"`, { at })],
  );
}

/** An option names an upstream if its schema has `format: "upstream-name"`. */
function unknownUpstreams(config: Config, plugins: ReadonlyMap<string, Plugin>): Fault[] {
  return [...new Set(allUses(config))].flatMap((use) =>
    upstreamNames(use, plugins.get(use.name)).flatMap(([key, name]) => {
      const upstreams = upstreamsOf(config);
      if (upstreams.has(name)) return [];
      const didYouMean = nearest(name, upstreams.keys());
      const at = use.positionOf(`/${key}`);
      return [fault("SLUICE_UPSTREAM_UNKNOWN", `unknown upstream "${name}"`, { at, didYouMean })];
    }),
  );
}

/** An upstream counts as used if any option contains its name or a misspelling of it. */
function unusedUpstreams(config: Config): Fault[] {
  const texts = new Set<string>();
  for (const use of allUses(config)) collectTexts(use.options, texts);
  // An upstream can name another one, such as its relay chain.
  collectTexts(config.sections["upstreams"], texts);
  const names = [...upstreamsOf(config).keys()];
  const meant = [...texts].map((text) => nearest(text, names));
  return names.flatMap((name) => {
    if (texts.has(name) || meant.includes(name)) return [];
    const at = config.keyAt(`/upstreams/${pointerKey(name)}`);
    return [fault("SLUICE_UPSTREAM_UNUSED", `unused upstream "${name}"`, { at })];
  });
}

function upstreamNames(use: PluginUse, plugin: Plugin | undefined): [string, string][] {
  const properties = plugin?.options?.["properties"];
  if (!isObject(properties)) return [];
  return Object.entries(properties).flatMap(([key, schema]) => {
    const isName = isObject(schema) && schema["format"] === "upstream-name";
    const value = use.options[key];
    return isName && typeof value === "string" ? [[key, value] satisfies [string, string]] : [];
  });
}

function collectTexts(value: unknown, texts: Set<string>): void {
  if (typeof value === "string") texts.add(value);
  else if (isContainer(value)) {
    for (const part of Object.values(value)) collectTexts(part, texts);
  }
}
