/** The services of one generation, and the `host` objects through which plugins reach them. */
import { randomUUID } from "node:crypto";
import type { Config } from "../../config/config.ts";
import type {
  DocumentedRoute,
  Host,
  Plugin,
  ServiceHooks,
  ServiceName,
  ServiceTypes,
  StartedTools,
} from "../../plugin.ts";
import { version } from "../../version.ts";
import { servicesOf } from "../../config/services.ts";
import type { HostResources } from "./host-resources.ts";

type User = Pick<Plugin, "name" | "uses" | "usesIfInstalled">;

interface AvailableService {
  readonly service: unknown;
  /** Returns a text that changes if the plugins that use the service must be restarted. */
  readonly identity: () => string;
}

export class ServiceRegistry {
  readonly #available = new Map<string, AvailableService>();
  readonly #started = new Map<string, ServiceHooks<unknown>>();
  readonly #tools: StartedTools[] = [];
  readonly #routes: DocumentedRoute[] = [];
  readonly #config: Config;
  readonly #resources: HostResources;

  constructor(config: Config, resources: HostResources) {
    this.#config = config;
    this.#resources = resources;
    const { gateway } = resources;
    this.#available.set("gateway", { service: gateway, identity: () => idOf(gateway) });
    // The routes are documented again by each load, so plugins that use the documentation are always restarted.
    this.#available.set("routes", { service: this.#routes, identity: () => idOf(this.#routes) });
    this.#available.set("tools", {
      service: this.#tools,
      identity: () => this.#tools.map(({ hooks }) => idOf(hooks)).join(),
    });
  }

  /** The services that plugins provide, each after those that it uses. */
  get started(): ReadonlyMap<string, ServiceHooks<unknown>> {
    return this.#started;
  }

  addService(name: string, hooks: ServiceHooks<unknown>): void {
    this.#started.set(name, hooks);
    this.#available.set(name, { service: hooks.service, identity: () => idOf(hooks) });
  }

  /** Adds tools to the service `tools`. */
  addTools(tools: StartedTools): void {
    this.#tools.push(tools);
  }

  /** Adds a route to the service `routes`. */
  addRoute(route: DocumentedRoute): void {
    this.#routes.push(route);
  }

  has(name: string): boolean {
    return this.#available.has(name);
  }

  /** Returns a text that changes if one of the services that the plugin uses is another instance. */
  identityOf(plugin: User): string {
    return servicesOf(plugin)
      .map((name) => this.#available.get(name)?.identity() ?? "none")
      .join(" ");
  }

  /** Returns the host of one plugin instance. It gives the plugin the services of this generation. */
  hostFor(plugin: User, mode: Host["mode"]): Host {
    const { log, clock, metrics, seal, claims, store, compute } = this.#resources;
    const { environment, file } = this.#config;
    const required = this.#find(plugin.uses);
    const optional = this.#find(plugin.usesIfInstalled);
    const notListed = (name: string, member: string): Error =>
      new Error(`plugin "${plugin.name}" must list the service "${name}" under \`${member}\``);
    return {
      environment,
      mode,
      log: log.child({ plugin: plugin.name }),
      clock,
      metrics,
      store,
      compute,
      seal,
      claims,
      // The plugin that declares the type of a service under a name is the one that provides it.
      use<Name extends ServiceName>(name: Name, options?: { ifInstalled: true }) {
        const [services, member] =
          options === undefined ? [required, "uses"] : [optional, "usesIfInstalled"];
        const found = services.get(name);
        if (found === undefined && (options === undefined || !services.has(name))) {
          throw notListed(name, member);
        }
        return found?.service as ServiceTypes[Name];
      },
      version,
      folder: file.slice(0, file.lastIndexOf("/") + 1) || ".",
    };
  }

  /** Maps each name to its service, or to undefined if there is none. */
  #find(names: readonly string[] = []): ReadonlyMap<string, AvailableService | undefined> {
    return new Map(names.map((name) => [name, this.#available.get(name)]));
  }
}

/** Ids of objects, by which a later load recognizes them. */
const ids = new WeakMap<object, string>();

function idOf(instance: object): string {
  return ids.getOrInsertComputed(instance, () => randomUUID());
}
