/** Makes the `Config` out of the located tree: validates the whole file, then turns each section into its type. */
import { dirname, resolve } from "node:path";
import type { PlanName } from "../plugin.ts";
import type {
  Config,
  PlanConfig,
  PluginUse,
  RouteConfig,
  ServerConfig,
  UpstreamConfig,
  UsageExportConfig,
} from "./config.ts";
import type { Environment } from "./environment.ts";
import { createExpander, methodFaults, pluginUse, readSurface, type Expander } from "./expand.ts";
import { fault, type Fault, type Position } from "./fault.ts";
import { durationMs, splitUrls } from "./formats.ts";
import { find, type Located, type LocatedEntry, type LocatedMap } from "./located.ts";
import { pathProblem } from "./paths.ts";
import { fileSchema } from "./schema.ts";
import { upstreamSchema } from "./schema-backends.ts";
import {
  networkFaults,
  shapeNetworks,
  type NetworkShape,
  type RateShape,
} from "./shape-networks.ts";
import { unsupportedFaults, type UnsupportedShape } from "./unsupported.ts";
import { validate } from "./validate.ts";

/** The file after validation, with defaults: what `fileSchema` describes. */
interface FileShape extends UnsupportedShape {
  readonly environment: Config["environment"];
  readonly server: ServerConfig;
  readonly admin: Config["admin"];
  readonly store: { readonly data: string; readonly redis?: string; readonly postgres?: string };
  readonly metering: MeteringShape;
  readonly plans: Readonly<Record<PlanName, PlanShape>>;
  readonly log: Config["log"];
  readonly secret?: string;
  readonly upstreams: Readonly<Record<string, UpstreamShape | null>>;
  readonly networks: Readonly<Record<string, NetworkShape | null>>;
  readonly rate?: RateShape;
  readonly collateral: { readonly pccs?: string; readonly file?: string };
  readonly plugins: Readonly<Record<string, string | null>>;
  readonly routes?: readonly (RouteShape | null)[];
}

interface MeteringShape {
  readonly durability: Config["metering"]["durability"];
  readonly export?: Omit<UsageExportConfig, "url" | "everyMs"> & {
    readonly url?: string;
    readonly every: string;
  };
}

interface PlanShape {
  readonly rps: number;
  readonly includedCu: number;
  readonly overageUsdPerCu: string;
}

type UpstreamShape = Omit<UpstreamConfig, "name" | "at" | "urls" | "methods" | "maxHeadAgeMs"> & {
  readonly urls?: string | readonly (string | null)[];
  readonly methods: Readonly<Record<string, boolean | UpstreamMethod>>;
  readonly maxHeadAge?: string;
};
type UpstreamMethod = Exclude<UpstreamConfig["methods"][string], false>;

interface RouteShape {
  readonly path?: string;
  readonly methods?: readonly (string | null)[];
  readonly websocket: boolean;
}

/** Entries of lists are judged by expand.ts, which knows their forms and names them better than a schema could. */
const looseEntry = {};
const readingSchema = fileSchema({
  step: looseEntry,
  surface: { type: ["string", "object"] },
  tools: looseEntry,
  fastify: looseEntry,
});

export function shapeConfig(
  root: LocatedMap,
  file: string,
  env: Environment,
): { config: Config; faults: Fault[] } {
  fillNulls(root);
  const { faults: found, value } = validate(root, readingSchema);
  const faults = [...found];
  // `validate` returns what the schema describes, without the parts it reported.
  const shape = value as FileShape;
  const expander = createExpander(find(root, "/lists"));
  const config: Config = {
    file,
    sectionOf: ({ line, col }) =>
      // In the order of the file.
      [...root.entries].findLast(
        ([, { keyAt }]) => keyAt.line < line || (keyAt.line === line && keyAt.col <= col),
      )?.[0],
    sectionAt: (name) => root.entries.get(name)?.keyAt ?? { file, line: 1, col: 1 },
    environment: shape.environment,
    simulatedAllowed: shape.environment !== "prod" || env["CONFIDENTIAL_ALLOW_SIMULATED"] === "1",
    server: shape.server,
    admin: shape.admin,
    store: {
      data: resolve(dirname(file), shape.store.data),
      redis: shape.store.redis,
      postgres: shape.store.postgres,
    },
    metering: shapeMetering(shape.metering),
    plans: shapePlans(shape.plans),
    upstreams: shapeUpstreams(shape.upstreams, root),
    networks: shapeNetworks(shape.networks, shape.rate),
    collateral: {
      pccs: shape.collateral.pccs,
      file: shape.collateral.file && resolve(dirname(file), shape.collateral.file),
    },
    log: shape.log,
    secret: shape.secret,
    tools: shapeUses(find(root, "/tools"), faults),
    plugins: shapePlugins(shape.plugins, root),
    fastify: shapeUses(find(root, "/fastify"), faults),
    ...shapeUnmatched(find(root, "/unmatched"), expander),
    routes: (shape.routes ?? []).flatMap((route, index) => {
      const node = find(root, `/routes/${index}`);
      return route === null || node === undefined
        ? []
        : [shapeRoute(route, node, expander, faults)];
    }),
  };
  if (config.environment === "prod" && config.secret === undefined) {
    const at = find(root, "/environment")?.at ?? root.at;
    faults.push(fault("SLUICE_SECRET_MISSING", "the environment prod needs a secret", { at }));
  }
  faults.push(...unsupportedFaults(shape, root, found));
  faults.push(...networkFaults(config, root, found));
  return { config, faults: [...faults, ...expander.finish(config.routes.length > 0)] };
}

/** An export without a url is not there: its variable may be empty. */
function shapeMetering({ durability, export: shape }: MeteringShape): Config["metering"] {
  if (shape?.url === undefined) return { durability, export: undefined };
  const { url, every, ...rest } = shape;
  return { durability, export: { ...rest, url, everyMs: durationMs(every) ?? 0 } };
}

/**
 * A key with nothing behind it (all its lines commented out) counts as not written; a name with nothing behind it is there,
 * but empty. Options of plugins are left as they are.
 */
function fillNulls(root: LocatedMap): void {
  dropOwnNulls(root);
  for (const [key, { value }] of root.entries) {
    if (key === "routes" && value.kind === "list") {
      for (const item of value.items) if (item.kind === "map") dropOwnNulls(item);
    } else if (value.kind === "map" && key !== "plugins") {
      const blank = blanks[key];
      if (blank === undefined) dropNulls(value);
      else for (const [name, entry] of value.entries) fillNamed(value, name, entry, blank);
    }
  }
}

type Blank = (at: Position) => Located;
const emptyMap: Blank = (at) => ({ kind: "map", at, entries: new Map() });
/** The sections that hold named things, with what a name alone stands for. */
const blanks: Readonly<Record<string, Blank>> = {
  lists: (at) => ({ kind: "list", at, items: [] }),
  upstreams: emptyMap,
  networks: emptyMap,
};

function fillNamed(parent: LocatedMap, name: string, entry: LocatedEntry, blank: Blank): void {
  const { keyAt, value } = entry;
  if (isNull(value)) parent.entries.set(name, { keyAt, value: blank(keyAt) });
  else dropNulls(value);
}

function isNull(node: Located): boolean {
  return node.kind === "scalar" && node.value === null && !node.broken;
}

function dropNulls(node: Located): void {
  if (node.kind !== "map") return;
  dropOwnNulls(node);
  for (const { value } of node.entries.values()) dropNulls(value);
}

function dropOwnNulls(node: LocatedMap): void {
  for (const [key, { value }] of node.entries) {
    if (isNull(value)) node.entries.delete(key);
  }
}

function shapePlans(plans: FileShape["plans"]): Config["plans"] {
  const plan = ({ rps, includedCu, overageUsdPerCu }: PlanShape): PlanConfig => ({
    rps,
    includedCuMilli: includedCu * 1_000,
    overageUsdPerCu: overageUsdPerCu === "none" ? undefined : overageUsdPerCu,
  });
  return {
    free: plan(plans.free),
    developer: plan(plans.developer),
    startup: plan(plans.startup),
    enterprise: plan(plans.enterprise),
  };
}

function shapeUpstreams(
  upstreams: FileShape["upstreams"],
  root: Located,
): ReadonlyMap<string, UpstreamConfig> {
  const result = new Map<string, UpstreamConfig>();
  const nodes = find(root, "/upstreams");
  if (nodes?.kind !== "map") return result;
  for (const [name, { keyAt: at }] of nodes.entries) {
    // One that could not be read is there all the same: whoever names it makes no mistake.
    const { urls = [], methods, maxHeadAge, ...rest } = upstreams[name] ?? blankUpstream(at);
    const list = typeof urls === "string" ? [urls] : urls;
    result.set(name, {
      ...rest,
      name,
      at,
      urls: list.flatMap((text) => (text === null ? [] : splitUrls(text))),
      methods: Object.fromEntries(
        Object.entries(methods).map(([method, rule]) => [method, rule === true ? {} : rule]),
      ),
      maxHeadAgeMs: maxHeadAge === undefined ? undefined : durationMs(maxHeadAge),
    });
  }
  return result;
}

function blankUpstream(at: Position): UpstreamShape {
  // `validate` fills in what the schema describes; `urls` may be absent.
  return validate(emptyMap(at), upstreamSchema).value as UpstreamShape;
}

function shapePlugins(plugins: FileShape["plugins"], root: Located): Config["plugins"] {
  const nodes = find(root, "/plugins");
  const entries = Object.entries(plugins).flatMap(([name, source]) => {
    const at = nodes?.kind === "map" ? nodes.entries.get(name)?.keyAt : undefined;
    return source === null || at === undefined ? [] : [[name, { source, at }] as const];
  });
  return new Map(entries);
}

function shapeUnmatched(
  node: Located | undefined,
  expander: Expander,
): Pick<Config, "unmatched" | "unmatchedOff" | "unmatchedIncomplete"> {
  const { steps, off, incomplete } = expander.expand(node);
  return { unmatched: steps, unmatchedOff: off, unmatchedIncomplete: incomplete };
}

function shapeUses(node: Located | undefined, faults: Fault[]): PluginUse[] {
  if (node?.kind !== "list") return [];
  return node.items.flatMap((item) => readSurface(item, faults) ?? []);
}

function shapeRoute(
  shape: RouteShape,
  node: Located,
  expander: Expander,
  faults: Fault[],
): RouteConfig {
  const { path = "", websocket } = shape;
  const { steps, off, incomplete } = expander.expand(find(node, "/run"));
  const problem = path === "" ? undefined : pathProblem(path);
  const pathNode = find(node, "/path");
  if (problem !== undefined) {
    const at = pathNode?.at ?? node.at;
    faults.push(
      fault("SLUICE_ROUTE_PATH", `the path ${JSON.stringify(path)} is wrong: ${problem}`, { at }),
    );
  }
  const methodsNode = find(node, "/methods");
  if (websocket && methodsNode !== undefined) {
    faults.push(
      fault("SLUICE_ROUTE_WEBSOCKET", "a websocket route takes no methods", { at: methodsNode.at }),
    );
  } else faults.push(...methodFaults(methodsNode, ["*"]));
  const methods = (shape.methods ?? ["*"]).filter((method) => method !== null);
  const to = readSurface(find(node, "/to"), faults);
  return {
    path,
    methods: websocket ? ["GET"] : methods,
    websocket,
    run: steps,
    // A route without a readable surface is a fault already; the empty name is never looked up.
    to: to ?? pluginUse("", node.at),
    at: node.at,
    off,
    incomplete: incomplete || to === undefined || problem !== undefined,
  };
}
