import type { Config, PluginUse, RouteConfig, StepUse } from "../../config/config.ts";
import { fault, type Fault, type Position } from "../../config/fault.ts";
import { dependents } from "../../config/services.ts";
import { bodyHookProblem, PermissionError } from "../../contract/permissions.ts";
import { deprecatedHooks } from "../../contract/version.ts";
import { storeFault } from "../../config/store-faults.ts";
import type { SluiceCode } from "../../base/errors.ts";
import type {
  Host,
  Plugin,
  Service,
  ServiceHooks,
  StepHooks,
  SurfaceHooks,
  ToolsHooks,
} from "../../plugin.ts";
import { compileRoute, type CompiledRoute, type PlacedStep } from "../run/compile.ts";
import { countedService } from "./counted-service.ts";
import { documentRoute } from "./document.ts";
import type { PluginCarryOver, StartedPlugin } from "./plugin-carry-over.ts";
import { hookProblems } from "./hook-problems.ts";
import type { HostResources } from "./host-resources.ts";
import { enforceManifest } from "./strict.ts";
import { stableJson } from "../../base/canonical-json.ts";
import { pluginCounts, type PluginCounts } from "../observe/plugin-counts.ts";
import type { CoreMetrics } from "../observe/stats.ts";
import { ServiceRegistry } from "./service-registry.ts";
import { unmatchedSurface } from "./router.ts";
import { StoreError } from "../../store/store-error.ts";
import { late, withinLimit } from "../../base/time-limit.ts";
import { WaitLimit } from "../../base/wait-limit.ts";
import { messageOf } from "../../base/message-of.ts";

type NewlyStarted = StartedPlugin & { readonly hooks: object };
type AnyHooks = StepHooks | SurfaceHooks | ToolsHooks | ServiceHooks<unknown>;

/** Maximum time for the start of a plugin. Without it, a reload could wait forever, and all later reloads with it. */
const startMs = 30_000;

export class Builder {
  readonly faults: Fault[] = [];
  readonly updates: (() => void)[] = [];
  readonly #registry: ServiceRegistry;
  readonly #config: Config;
  readonly #plugins: ReadonlyMap<string, Plugin>;
  readonly #core: CoreMetrics;
  readonly #carryOver: PluginCarryOver;
  readonly #resources: HostResources;
  readonly #strict: boolean;

  constructor(
    config: Config,
    plugins: ReadonlyMap<string, Plugin>,
    resources: HostResources,
    core: CoreMetrics,
    carryOver: PluginCarryOver,
    strict: boolean,
  ) {
    this.#config = config;
    this.#plugins = plugins;
    this.#core = core;
    this.#carryOver = carryOver;
    this.#resources = resources;
    this.#strict = strict;
    this.#registry = new ServiceRegistry(config, resources, strict);
  }

  get services(): ReadonlyMap<string, ServiceHooks<unknown>> {
    return this.#registry.started;
  }

  /**
   * Starts the services that do not depend on tools, then the tools, then the other services, each one after the
   * services that it uses. Services start at the same time, because some wait for a thread or a disk.
   */
  async startServices(): Promise<void> {
    const { services } = this.#config;
    const dependent = dependents("tools", services, this.#plugins);
    const started = new Map<string, Promise<void>>();
    const start = async (use: PluginUse): Promise<void> => {
      const { uses = [], usesIfInstalled = [] } = this.#plugins.get(use.name) ?? {};
      await Promise.all([...uses, ...usesIfInstalled].flatMap((name) => started.get(name) ?? []));
      await this.#service(use);
    };
    const startAll = async (wanted: readonly PluginUse[]): Promise<void> => {
      for (const use of wanted) started.set(use.name, start(use));
      await Promise.all(started.values());
    };
    await startAll(services.filter(({ name }) => !dependent.has(name)));
    for (const use of this.#config.tools) await this.#tools(use);
    await startAll(services.filter(({ name }) => dependent.has(name)));
  }

  async #service(use: PluginUse): Promise<void> {
    const plugin = this.#plugins.get(use.name);
    if (plugin?.kind !== "service") return;
    const hooks = await this.#start<ServiceHooks<unknown>>(plugin, use, "enforce");
    if (hooks === undefined) return;
    this.#registry.addService(use.name, hooks);
    // The options were checked against the plugin's schema, which matches its `Options` type.
    const update = (): void => plugin.update?.(hooks.service, use.options as never);
    if (plugin.update !== undefined)
      this.updates.push(() => this.#counts(plugin)("update").call(update));
  }

  async #tools(use: PluginUse): Promise<void> {
    const plugin = this.#plugins.get(use.name);
    if (plugin?.kind !== "tools") return;
    const hooks = await this.#start<ToolsHooks>(plugin, use, "enforce");
    if (hooks === undefined) return;
    const reportInvalid = (problem: string): void =>
      this.#fault("SLUICE_TOOL_INVALID", `${use.name}: ${problem}`, use.at);
    const counts = this.#counts(plugin);
    this.#registry.addTools({ plugin: use.name, hooks, reportInvalid, counts });
  }

  async route(config: RouteConfig): Promise<CompiledRoute | undefined> {
    const steps = await this.#steps(config.path, config.run);
    const plugin = this.#plugins.get(config.to.name);
    if (plugin?.kind !== "surface") return undefined;
    const surface = await this.#start<SurfaceHooks>(plugin, config.to, "enforce");
    if (surface === undefined || steps === undefined) return undefined;
    const hooks = this.#strict ? enforceManifest(plugin, surface) : surface;
    const compiled = compileRoute(config, steps, hooks, this.#core);
    this.#document(compiled);
    return compiled;
  }

  #document(compiled: CompiledRoute): void {
    const hostOf = (name: string, mode: Host["mode"]): Host => {
      const plugin = this.#plugins.get(name) ?? ({ name, kind: "surface" } as const);
      const { host, close } = this.#registry.hostFor(plugin, mode, this.#counts(plugin));
      // No instance runs with this host, so nothing would end its timers.
      void close();
      return host;
    };
    try {
      this.#registry.addRoute(documentRoute(compiled, this.#plugins, hostOf));
    } catch (error) {
      const { path, at } = compiled.config;
      const reason = messageOf(error);
      this.#fault(
        "SLUICE_PLUGIN_OPERATION",
        `the OpenAPI operation of ${path} could not be created: ${reason}`,
        at,
      );
    }
  }

  async unmatched(): Promise<CompiledRoute | undefined> {
    const { unmatched, file } = this.#config;
    const steps = await this.#steps("(unmatched)", unmatched);
    if (steps === undefined) return undefined;
    const at = { file, line: 1, col: 1 };
    const to: PluginUse = { name: "(unmatched)", options: {}, at, positionOf: () => at };
    const config: RouteConfig = {
      path: "(unmatched)",
      methods: ["*"],
      websocket: false,
      run: unmatched,
      to,
      at,
    };
    return compileRoute(config, steps, unmatchedSurface, this.#core);
  }

  async #steps(route: string, uses: readonly StepUse[]): Promise<PlacedStep[] | undefined> {
    const placed: PlacedStep[] = [];
    let whole = true;
    for (const [depth, use] of uses.entries()) {
      const plugin = this.#plugins.get(use.name);
      if (plugin?.kind !== "step") return undefined;
      const hooks = await this.#start<StepHooks>(plugin, use, use.mode);
      const problem = hooks === undefined ? undefined : bodyHookProblem(plugin, hooks);
      if (problem !== undefined) {
        this.#fault("SLUICE_PLUGIN_PERMISSION", `${use.name}: ${problem}`, use.at);
      }
      if (hooks === undefined || problem !== undefined) {
        whole = false;
        continue;
      }
      placed.push({
        name: use.name,
        depth,
        hooks: this.#strict ? enforceManifest(plugin, hooks) : hooks,
        shadow: use.mode === "shadow",
        when: use.when,
        limit:
          use.timeoutMs === 0 ? undefined : new WaitLimit(this.#resources.clock, use.timeoutMs),
        isSkippable: use.onError === "skip",
        shadowRefusals: this.#core.shadowRefusals.with({ route, step: use.name }),
      });
    }
    return whole ? placed : undefined;
  }

  /** Starts one instance per plugin, options and mode. All routes that use it share its buckets and caches. */
  async #start<Hooks extends AnyHooks>(
    plugin: Plugin,
    use: PluginUse,
    mode: Host["mode"],
  ): Promise<Hooks | undefined> {
    // A service that could not start has been reported. The plugins that use it cannot start either.
    if (plugin.uses?.some((name) => !this.#registry.has(name)) === true) return undefined;
    const counts = this.#counts(plugin);
    const { host, close } = this.#registry.hostFor(plugin, mode, counts);
    let hasStarted = false;
    try {
      const options = use.options as never;
      const wrong = plugin.check?.(options, host) ?? [];
      for (const { pointer, message } of wrong) {
        this.#fault("SLUICE_OPTION_INVALID", message, use.positionOf(pointer));
      }
      if (wrong.length > 0) return undefined;
      const start = async (): Promise<StartedPlugin> => {
        const starting = (): Promise<NewlyStarted> => this.#startInstance(plugin, options, host);
        const started = await this.#inTime(counts("start").call(starting));
        hasStarted = true;
        for (const problem of deprecatedHooks(plugin.kind, started.hooks)) {
          host.log.warn({}, problem);
        }
        const stop = async (): Promise<void> => {
          try {
            await counts("stop").call(async () => started.stop());
          } finally {
            await close();
          }
        };
        // `#startService` returns hooks of services.
        const hooks = started.isService
          ? countedService(started.hooks as ServiceHooks<unknown>, counts)
          : started.hooks;
        return { ...started, hooks, stop };
      };
      // A service that can be updated keeps running although its options have changed.
      const isUpdated = plugin.kind === "service" && plugin.update !== undefined;
      const inputs = [isUpdated ? "" : stableJson(use.options), this.#registry.identityOf(plugin)];
      const title = `plugin ${mode} ${plugin.name}`;
      // The plugin's kind determines which hooks `start` returns.
      return (await this.#carryOver.acquire(title, inputs.join(" "), plugin, start)) as Hooks;
    } catch (error) {
      // The faults of its options have been reported already.
      if (use.incomplete === true) return undefined;
      if (error instanceof StoreError) {
        this.faults.push(storeFault(error, this.#config));
        return undefined;
      }
      const reason = messageOf(error);
      const code =
        error instanceof PermissionError ? "SLUICE_PLUGIN_PERMISSION" : "SLUICE_PLUGIN_START";
      this.#fault(code, `${plugin.name} did not start: ${reason}`, use.at);
      return undefined;
    } finally {
      // The plugin was carried over with the host that it has, or did not start.
      if (!hasStarted) await close();
    }
  }

  /** Rejects if a plugin does not start in time. It is stopped if it starts later. */
  async #inTime(starting: Promise<NewlyStarted>): Promise<NewlyStarted> {
    const started = await withinLimit(starting, startMs, this.#resources.clock);
    if (started !== late) return started;
    starting.then(({ stop }) => stop()).catch(() => {});
    throw new Error(`\`start\` did not return within ${startMs / 1_000} s`);
  }

  async #startInstance(plugin: Plugin, options: never, host: Host): Promise<NewlyStarted> {
    if (plugin.kind === "service") return this.#startService(plugin, options, host);
    const hooks = await plugin.start(options, host);
    checkHooks(plugin.kind, hooks);
    return { hooks, stop: () => hooks.stop?.(), isService: false };
  }

  async #startService(service: Service<never>, options: never, host: Host): Promise<NewlyStarted> {
    const { dryRun, parts } = this.#resources;
    if (dryRun === true && service.dryRun !== undefined) {
      return {
        hooks: { service: await service.dryRun(options, host) },
        stop() {},
        isService: true,
      };
    }
    const holder = parts.holder(service);
    try {
      const { keep } = holder;
      const isDefault = (pointer: string): boolean => this.#config.isDefault(pointer);
      const hooks = await service.start(options, host, { keep, isDefault });
      checkHooks("service", hooks);
      const stop = async (): Promise<void> => {
        try {
          await hooks.stop?.();
        } finally {
          await holder.release();
        }
      };
      return { hooks, stop, isService: true };
    } catch (error) {
      await holder.release();
      throw error;
    }
  }

  #counts(plugin: Pick<Plugin, "name" | "kind">): PluginCounts {
    return pluginCounts(plugin, this.#resources);
  }

  #fault(code: SluiceCode, message: string, at: Position): void {
    this.faults.push(fault(code, message, { at }));
  }
}

function checkHooks(kind: Plugin["kind"], hooks: object): void {
  const problems = hookProblems(kind, hooks);
  if (problems.length > 0) throw new Error(problems.join("; "));
}
