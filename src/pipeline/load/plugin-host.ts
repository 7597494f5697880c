import type { Config } from "../../config/config.ts";
import {
  deploymentParts,
  grantsOf,
  PermissionError,
  type DeploymentPart,
} from "../../contract/permissions.ts";
import { guarded, runGuarded } from "../../base/guard.ts";
import { PluginClient } from "../../http/upstream/plugin-client.ts";
import type { Host, Plugin, ServiceName, ServiceTypes, Threads } from "../../plugin.ts";
import type { PluginCounts } from "../observe/plugin-counts.ts";
import { storageOf } from "../../store/plugin-entries.ts";
import { version } from "../../base/version.ts";
import type { HostResources } from "./host-resources.ts";

export type HostUser = Pick<Plugin, "name" | "uses" | "usesIfInstalled" | "permissions">;

export interface PluginHost {
  readonly host: Host;
  /** Ends the timers and the connections of the instance. It can start no others. */
  readonly close: () => Promise<void>;
}

/** `counts`: the counts of the plugin. `find`: returns a service by its name; undefined if there is none. */
export function createHost(
  plugin: HostUser,
  { mode, strict }: Pick<Host, "mode" | "strict">,
  config: Pick<Config, "environment" | "file">,
  resources: HostResources,
  counts: PluginCounts,
  find: (name: string) => unknown,
): PluginHost {
  const { log: rootLog, clock, metrics, seal, claims, store, compute, gateway } = resources;
  const log = rootLog.child({ plugin: plugin.name });
  const required = found(plugin.uses, find);
  const optional = found(plugin.usesIfInstalled, find);
  const timers = new PluginTimers(plugin.name, log, clock, counts);
  const clients: PluginClient[] = [];
  let isClosed = false;
  const { environment, file } = config;
  const members: Omit<Host, DeploymentPart> = {
    environment,
    mode,
    strict,
    log,
    clock,
    metrics,
    compute,
    threads: resources.threads && threadsOfPlugin(resources.threads, plugin.name),
    storage: storageOf(plugin.name, resources.entries),
    memory: {
      hold(caller, use, onRefused) {
        const onError = (err: unknown): void => log.error({ err }, "releasing memory failed");
        return resources.held.hold(caller, use, onRefused && guarded(onRefused, onError));
      },
    },
    // The plugin that declares the type of a service under a name is the one that provides it.
    use<Name extends ServiceName>(name: Name, options?: { ifInstalled: true }) {
      const [services, member] =
        options === undefined ? [required, "uses"] : [optional, "usesIfInstalled"];
      const service = services.get(name);
      if (service === undefined && (options === undefined || !services.has(name))) {
        const message = `plugin "${plugin.name}" must list the service "${name}" under \`${member}\``;
        throw new PermissionError(message);
      }
      return service as ServiceTypes[Name];
    },
    variable(name) {
      if (plugin.permissions?.env?.includes(name) === true) return gateway.variable(name);
      const message = `plugin "${plugin.name}" must list the variable "${name}" under \`permissions.env\``;
      throw new PermissionError(message);
    },
    upstream(url, options = {}) {
      const server = new URL(url);
      mustReach(plugin, server);
      // They would not be sent.
      if (server.username !== "" || server.password !== "") {
        throw new TypeError(`send the credentials for ${server.host} in a header, not in the URL`);
      }
      if (isClosed)
        throw new Error(`plugin "${plugin.name}" opened a client while it was not running`);
      const client = new PluginClient(server, options, { clock, log });
      clients.push(client);
      return client;
    },
    every: (ms, task) => timers.every(ms, task),
    version,
    folder: file.slice(0, file.lastIndexOf("/") + 1) || ".",
  };
  // `deploymentMembers` adds the members that are missing.
  const host = deploymentMembers(plugin, members, { store, seal, claims }) as Host;
  const close = async (): Promise<void> => {
    isClosed = true;
    timers.close();
    await Promise.all(clients.map((client) => client.close()));
  };
  return { host, close };
}

/**
 * Adds to `host` the parts of the deployment that the manifest permits. The others throw when they are read, and are not
 * enumerable, so that a plugin can copy its host.
 */
function deploymentMembers(plugin: HostUser, host: object, parts: Pick<Host, DeploymentPart>) {
  const { deployment } = grantsOf(plugin);
  for (const part of deploymentParts) {
    const get = (): never => {
      const message = `plugin "${plugin.name}" must list "${part}" under \`permissions.deployment\``;
      throw new PermissionError(message);
    };
    const isPermitted = deployment.includes(part);
    const member = isPermitted ? { value: parts[part], enumerable: true } : { get };
    Object.defineProperty(host, part, member);
  }
  return host;
}

function mustReach({ name, permissions }: HostUser, { protocol, hostname, port, href }: URL): void {
  if (protocol !== "http:" && protocol !== "https:") {
    throw new TypeError(`expected an http or https URL, got "${href}"`);
  }
  const server = `${hostname}:${port === "" ? (protocol === "https:" ? 443 : 80) : port}`;
  const hosts = permissions?.hosts ?? [];
  if (hosts.includes(server) || hosts.includes("*")) return;
  throw new PermissionError(
    `plugin "${name}" must list the server "${server}" under \`permissions.hosts\``,
  );
}

function found(
  names: readonly string[] = [],
  find: (name: string) => unknown,
): ReadonlyMap<string, unknown> {
  return new Map(names.map((name) => [name, find(name)]));
}

/** The longest interval that timers of Node accept. A longer one would become 1 ms. */
const maxMs = 2 ** 31 - 1;

class PluginTimers {
  readonly #plugin: string;
  readonly #log: Host["log"];
  readonly #clock: Host["clock"];
  readonly #counts: PluginCounts;
  readonly #running = new Set<Disposable>();
  readonly #closed = new AbortController();

  constructor(plugin: string, log: Host["log"], clock: Host["clock"], counts: PluginCounts) {
    this.#plugin = plugin;
    this.#log = log;
    this.#clock = clock;
    this.#counts = counts;
  }

  every(ms: number, task: Parameters<Host["every"]>[1]): Disposable {
    const { signal } = this.#closed;
    if (signal.aborted) {
      throw new Error(`plugin "${this.#plugin}" started a timer while it was not running`);
    }
    if (!(ms >= 1 && ms <= maxMs)) {
      throw new RangeError(`expected an interval from 1 to ${maxMs} ms, got ${ms}`);
    }
    let isRunning = false;
    const ended = (): void => {
      isRunning = false;
    };
    const failed = (error: unknown): void =>
      this.#log.error({ err: error }, "a timer of the plugin failed");
    const counts = this.#counts("timer");
    const run = () => counts.call(() => task(signal));
    const timer = this.#clock.every(ms, () => {
      if (isRunning) return;
      const result = runGuarded(run, failed);
      if (!(result instanceof Promise)) return;
      isRunning = true;
      result.then(ended, ended);
    });
    this.#running.add(timer);
    return {
      [Symbol.dispose]: () => {
        this.#running.delete(timer);
        timer[Symbol.dispose]();
      },
    };
  }

  close(): void {
    this.#closed.abort();
    for (const timer of this.#running) timer[Symbol.dispose]();
    this.#running.clear();
  }
}

/** Gives all names a prefix, so that a plugin reaches neither the core nor other plugins through them. */
function threadsOfPlugin(threads: Threads, plugin: string): Threads {
  const { index, count, slots } = threads;
  const full = (name: string): string => `plugin ${plugin}: ${name}`;
  return {
    index,
    count,
    slots,
    memory: (name, bytes) => threads.memory(full(name), bytes),
    call: (name, value, to) => threads.call(full(name), value, to),
    serve: (name, answer) => threads.serve(full(name), answer),
    send: (topic, value, to) => threads.send(full(topic), value, to),
    receive: (topic, receive) => threads.receive(full(topic), receive),
    onEnded: (ended) => threads.onEnded(ended),
  };
}
