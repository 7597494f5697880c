import { randomUUID } from "node:crypto";
import type { Config } from "../../config/config.ts";
import type { DocumentedRoute, Host, ServiceHooks, StartedTools } from "../../plugin.ts";
import { servicesOf } from "../../config/services.ts";
import type { HostResources } from "./host-resources.ts";
import type { PluginCounts } from "../observe/plugin-counts.ts";
import { createHost, type HostUser, type PluginHost } from "./plugin-host.ts";

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
  readonly #strict: boolean;

  constructor(config: Config, resources: HostResources, strict: boolean) {
    this.#strict = strict;
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

  get started(): ReadonlyMap<string, ServiceHooks<unknown>> {
    return this.#started;
  }

  addService(name: string, hooks: ServiceHooks<unknown>): void {
    this.#started.set(name, hooks);
    this.#available.set(name, { service: hooks.service, identity: () => idOf(hooks) });
  }

  addTools(tools: StartedTools): void {
    this.#tools.push(tools);
  }

  addRoute(route: DocumentedRoute): void {
    this.#routes.push(route);
  }

  has(name: string): boolean {
    return this.#available.has(name);
  }

  /** Returns a text that changes if one of the services that the plugin uses is another instance. */
  identityOf(plugin: HostUser): string {
    return servicesOf(plugin)
      .map((name) => this.#available.get(name)?.identity() ?? "none")
      .join(" ");
  }

  hostFor(plugin: HostUser, mode: Host["mode"], counts: PluginCounts): PluginHost {
    return createHost(
      plugin,
      { mode, strict: this.#strict },
      this.#config,
      this.#resources,
      counts,
      (name) => this.#available.get(name)?.service,
    );
  }
}

/** Ids of objects, by which a later load recognizes them. */
const ids = new WeakMap<object, string>();

function idOf(instance: object): string {
  let id = ids.get(instance);
  if (id === undefined) {
    id = randomUUID();
    ids.set(instance, id);
  }
  return id;
}
