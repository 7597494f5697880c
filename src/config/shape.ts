import { realpathSync } from "node:fs";
import { basename, dirname, join, resolve, sep } from "node:path";
import type { JsonSchema } from "../plugin.ts";
import type { Config, PluginUse, RouteConfig, ServerConfig, ThirdPartyPlugin } from "./config.ts";
import type { Environment } from "./environment.ts";
import { pluginUse, readSection, readSurface } from "./entry.ts";
import { createExpander, type Expander } from "./expand.ts";
import { fault, type Fault } from "./fault.ts";
import { fillNulls } from "./fill-nulls.ts";
import {
  find,
  isDefaulted,
  keyPositionOf,
  type Located,
  type LocatedEntry,
  type LocatedMap,
} from "./located.ts";
import { methodFaults } from "./methods.ts";
import { pathProblem } from "./paths.ts";
import { fileSchema, gatewaySections } from "./schema.ts";
import { sectionsOf, type SectionOwner } from "./sections.ts";
import { storeSettingFaults, type StoreShape } from "./store-faults.ts";
import { threadFaults, threadsOf } from "./threads.ts";
import { validate } from "./validate.ts";

interface FileShape extends StoreShape {
  readonly environment: Config["environment"];
  readonly server: Omit<ServerConfig, "threads"> & { readonly threads: number | "auto" };
  readonly admin: Config["admin"];
  readonly store: {
    readonly data: string;
    readonly redis?: string;
    readonly postgres?: string;
    readonly replica?: string;
  };
  readonly log: Config["log"];
  readonly secret?: string;
  readonly plugins: Readonly<Record<string, string | GrantedPlugin | null>>;
  readonly routes?: readonly (RouteShape | null)[];
}

interface GrantedPlugin {
  readonly from: string;
  readonly grants?: ThirdPartyPlugin["grants"];
}

interface RouteShape {
  readonly path?: string;
  readonly methods?: readonly (string | null)[];
  readonly websocket: boolean;
  readonly credential?: string;
}

/** expand.ts checks the entries of lists, because it can describe faults better than a schema. */
const anyEntry = {};
const anyEntries = {
  step: anyEntry,
  surface: { type: ["string", "object"] },
  tools: anyEntry,
  fastify: anyEntry,
};
const schemas = new WeakMap<readonly SectionOwner[], JsonSchema>();

/** A schema is compiled once, so the same services must get the same schema. */
function readingSchema(services: readonly SectionOwner[]): JsonSchema {
  const known = schemas.get(services) ?? fileSchema(anyEntries, services);
  schemas.set(services, known);
  return known;
}

export function shapeConfig(
  root: LocatedMap,
  { file, text }: Pick<Config, "file" | "text">,
  env: Environment,
  services: readonly SectionOwner[],
): { config: Config; faults: Fault[] } {
  const schema = readingSchema(services);
  fillNulls(root, schema);
  const serviceSections = takeServiceSections(root, services);
  const { faults: found, value } = validate(root, schema);
  const faults = [...found];
  const sections = new Map([...root.entries, ...serviceSections]);
  // `validate` returns a value that matches the schema, without the parts that have faults.
  const shape = value as FileShape;
  const expander = createExpander(find(root, "/lists"));
  const config: Config = {
    file,
    text,
    sectionOf: ({ line, col }) =>
      [...sections]
        .toSorted(([, a], [, b]) => a.keyAt.line - b.keyAt.line || a.keyAt.col - b.keyAt.col)
        .findLast(
          ([, { keyAt }]) => keyAt.line < line || (keyAt.line === line && keyAt.col <= col),
        )?.[0],
    keyAt: (pointer) => keyPositionOf(root, pointer, { file, line: 1, col: 1 }),
    keysOf(pointer) {
      const node = find(root, pointer);
      return node?.kind === "map" ? [...node.entries.keys()] : [];
    },
    isDefault(pointer) {
      const node = find(root, pointer);
      return node !== undefined && isDefaulted(node);
    },
    sections: Object.fromEntries(
      services
        .flatMap((service) => sectionsOf(service))
        .map((name) => [name, (value as Readonly<Record<string, unknown>>)[name]]),
    ),
    services: Array.from(serviceSections, ([name, section]) => readSection(name, section, faults)),
    environment: shape.environment,
    server: withPaths({ ...shape.server, threads: threadsOf(shape.server.threads) }, dirname(file)),
    admin: shape.admin,
    store: {
      data: resolve(dirname(file), shape.store.data),
      redis: shape.store.redis,
      postgres: shape.store.postgres,
      replica: shape.store.replica,
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
  faults.push(...secretFaults(config, root));
  faults.push(...threadFaults(config));
  if (isInNodeModules(config.store.data)) {
    const message = `the data folder ${config.store.data} is located in a node_modules folder`;
    faults.push(fault("SLUICE_STORE_MISPLACED", message, { at: config.keyAt("/store/data") }));
  }
  faults.push(...storeSettingFaults(shape, root, env, found));
  faults.push(...sectionFaults(config, services, env, found));
  return { config, faults: [...faults, ...expander.finish(config.routes.length > 0)] };
}

function withPaths(server: ServerConfig, folder: string): ServerConfig {
  const { tls } = server;
  if (tls?.cert === undefined || tls.key === undefined) return server;
  return { ...server, tls: { cert: resolve(folder, tls.cert), key: resolve(folder, tls.key) } };
}

/** A secret with a fault is not missing. */
function secretFaults({ environment, store }: Config, root: LocatedMap): Fault[] {
  if (find(root, "/secret") !== undefined) return [];
  const missing = (what: string, pointer: string): Fault =>
    fault("SLUICE_SECRET_MISSING", `missing \`secret\`, which ${what} requires`, {
      at: find(root, pointer)?.at ?? root.at,
    });
  return [
    ...(environment === "prod" ? [missing("the environment prod", "/environment")] : []),
    ...(store.postgres === undefined ? [] : [missing("store.postgres", "/store/postgres")]),
  ];
}

/** A position that has a fault in `found` gets no other fault. */
function sectionFaults(
  config: Config,
  services: readonly SectionOwner[],
  env: Environment,
  found: readonly Fault[],
): Fault[] {
  const { environment, sections } = config;
  const deployment = { environment, variable: (name: string) => env[name] };
  return services.flatMap((service) => {
    // A section that a service only extends is unknown without the module that owns it.
    const extended = Object.keys(service.extends ?? {});
    if (extended.some((section) => sections[section] === undefined)) return [];
    // The sections were validated with the schemas of the service.
    const broken = service.checkSections?.(sections as never, deployment) ?? [];
    return broken.flatMap(({ pointer, code, message }) => {
      const at = config.keyAt(pointer);
      const isKnown = found.some((one) => one.at?.line === at.line && one.at.col === at.col);
      return isKnown ? [] : [fault(code, message, { at })];
    });
  });
}

/**
 * Sections that have the name of a plugin under `plugins:` contain the options of a service, whose schema is known only
 * after the plugin is loaded.
 */
function takeServiceSections(
  root: LocatedMap,
  services: readonly SectionOwner[],
): Map<string, LocatedEntry> {
  const taken = new Map<string, LocatedEntry>();
  const plugins = root.entries.get("plugins")?.value;
  if (plugins?.kind !== "map") return taken;
  const known = new Set([
    ...gatewaySections,
    ...services.flatMap((service) => sectionsOf(service)),
  ]);
  for (const name of plugins.entries.keys()) {
    const section = root.entries.get(name);
    if (section === undefined || known.has(name)) continue;
    root.entries.delete(name);
    taken.set(name, section);
  }
  return taken;
}

function shapePlugins(plugins: FileShape["plugins"], root: Located): Config["plugins"] {
  const nodes = find(root, "/plugins");
  const entries = Object.entries(plugins).flatMap(([name, given]) => {
    const at = nodes?.kind === "map" ? nodes.entries.get(name)?.keyAt : undefined;
    if (given === null || at === undefined) return [];
    const { from: source, grants }: GrantedPlugin =
      typeof given === "string" ? { from: given } : given;
    return [[name, { source, grants, at }] as const];
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
  const { path = "", websocket, credential } = shape;
  const { steps, off, incomplete } = expander.expand(find(node, "/run"));
  const problem = path === "" ? undefined : pathProblem(path);
  const pathNode = find(node, "/path");
  if (problem !== undefined) {
    const at = pathNode?.at ?? node.at;
    faults.push(
      fault("SLUICE_ROUTE_PATH", `invalid path ${JSON.stringify(path)}: ${problem}`, { at }),
    );
  }
  const methodsNode = find(node, "/methods");
  if (websocket && methodsNode !== undefined) {
    faults.push(
      fault("SLUICE_ROUTE_WEBSOCKET", "a websocket route cannot have `methods`", {
        at: methodsNode.at,
      }),
    );
  } else faults.push(...methodFaults(methodsNode, ["*"]));
  const methods = (shape.methods ?? ["*"]).filter((method) => method !== null);
  if (credential !== undefined && !path.split("/").includes(`{${credential}}`)) {
    const at = find(node, "/credential")?.at ?? node.at;
    const message = `the path has no segment {${credential}}`;
    faults.push(fault("SLUICE_ROUTE_CREDENTIAL", message, { at }));
  }
  const to = readSurface(find(node, "/to"), faults);
  return {
    path,
    methods: websocket ? ["GET"] : methods,
    websocket,
    credential,
    run: steps,
    // A route without a readable surface has a fault already. No plugin is looked up for the empty name.
    to: to ?? pluginUse("", node.at),
    at: node.at,
    off,
    incomplete: incomplete || to === undefined || problem !== undefined,
  };
}

/**
 * npm deletes and replaces files there. `folder`: an absolute path, which does not have to exist and may contain links.
 */
function isInNodeModules(folder: string): boolean {
  return [folder, realPath(folder)].some((path) => path.split(sep).includes("node_modules"));
}

function realPath(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    const above = dirname(path);
    return above === path ? path : join(realPath(above), basename(path));
  }
}
