/**
 * The services of one generation, and the `host` objects through which plugins reach them. It records what each plugin
 * asked for while it started, so that a reload carries over only the plugins for which all of that is unchanged.
 */
import { randomUUID } from "node:crypto";
import type { Config } from "../../config/config.ts";
import type {
  DocumentedRoute,
  Host,
  Plugin,
  ServiceHooks,
  ServiceTypes,
  StartedTools,
} from "../../plugin.ts";
import { version } from "../../version.ts";
import { healthRoutes } from "./document.ts";
import type { Needs } from "./hand-over.ts";
import { instanceId } from "./instance-id.ts";
import type { Services } from "./services.ts";

type User = Pick<Plugin, "name" | "uses">;

/** A service that the gateway provides itself. */
interface BuiltIn {
  readonly service: unknown;
  /** A text that changes if plugins which use the service must be restarted. */
  readonly id: () => string;
}

export class ServiceRegistry {
  /** Services that have started, by name, each after those that it uses. */
  readonly running = new Map<string, ServiceHooks<unknown>>();
  /** The plugins of kind `tools` that have started, in order. */
  readonly tools: StartedTools[] = [];
  /** The documentation of the routes, which is complete when all of them are compiled. */
  readonly documented: DocumentedRoute[] = [...healthRoutes];
  readonly #builtIn: ReadonlyMap<string, BuiltIn>;
  /** Routes are documented again by each load, so plugins that use the documentation are always restarted. */
  readonly #loading = randomUUID();
  readonly #config: Config;
  readonly #services: Services;

  constructor(config: Config, services: Services) {
    this.#config = config;
    this.#services = services;
    this.#builtIn = new Map<string, BuiltIn>([
      // Until `accounts` is a service of the module billing.
      ["gateway", { service: services.gateway, id: () => "" }],
      ["routes", { service: this.documented, id: () => this.#loading }],
      ["tools", { service: this.tools, id: () => this.#toolsId() }],
    ]);
  }

  has(name: string): boolean {
    return this.running.has(name) || this.#builtIn.has(name);
  }

  /** Returns a host for one plugin instance. `needs` is filled while the plugin asks. */
  hostFor(plugin: User, mode: Host["mode"]): { host: Host; needs: Needs } {
    const { log, clock, metrics, seal, claims, store, compute } = this.#services;
    const { environment, file } = this.#config;
    const needs = new Map<string, string>();
    const asked = <T>(need: string, give: () => T): T => {
      needs.set(need, this.#state(need));
      return give();
    };
    const host: Host = {
      environment,
      mode,
      log: log.child({ plugin: plugin.name }),
      clock,
      metrics,
      store,
      compute,
      seal,
      claims,
      use: (name) => asked(`service ${name}`, () => this.#service(name, plugin)),
      version,
      folder: file.slice(0, file.lastIndexOf("/") + 1) || ".",
    };
    return { host, needs };
  }

  /** Returns true if everything that a plugin asked for is unchanged, so that this generation can hold the plugin. */
  renew(needs: Needs): boolean {
    for (const [need, state] of needs) if (this.#state(need) !== state) return false;
    return true;
  }

  #state(need: string): string {
    const name = need.slice("service ".length);
    const running = this.running.get(name);
    if (running !== undefined) return instanceId(running);
    return this.#builtIn.get(name)?.id() ?? "none";
  }

  #toolsId(): string {
    return this.tools.map(({ hooks }) => instanceId(hooks)).join();
  }

  #service<Name extends keyof ServiceTypes & string>(name: Name, plugin: User): ServiceTypes[Name] {
    const running = this.running.get(name) ?? this.#builtIn.get(name);
    if (plugin.uses?.includes(name) !== true || running === undefined) {
      throw new Error(`plugin "${plugin.name}" must list the service "${name}" under \`uses\``);
    }
    // The plugin that declares the type of a service under a name is the one that provides it.
    return running.service as ServiceTypes[Name];
  }
}
