/** Starts the plugins of a checked configuration, compiles its routes and collects the faults. */
import type { Config, PluginUse, RouteConfig, StepUse } from "../../config/config.ts";
import { fault, type Fault, type Position } from "../../config/fault.ts";
import type { SluiceCode } from "../../errors.ts";
import type {
  Host,
  Plugin,
  ServiceHooks,
  StepHooks,
  SurfaceHooks,
  ToolsHooks,
} from "../../plugin.ts";
import {
  createCatalogue,
  type Catalogue,
} from "../../../plugins/tools/tool-catalogue/catalogue.ts";
import { compileRoute, type CompiledRoute, type PlacedStep } from "./compile.ts";
import { documentRoute } from "./document.ts";
import type { HandOver, Needs, Started } from "./hand-over.ts";
import { instanceId } from "./instance-id.ts";
import type { Services } from "./services.ts";
import { heldToManifest } from "./strict.ts";
import { stableJson } from "./stable-json.ts";
import { RouteStats, type CoreMetrics } from "../observe/stats.ts";
import { Supply } from "./supply.ts";
import { unmatchedSurface } from "../run/unmatched.ts";

type AnyHooks = StepHooks | SurfaceHooks | ToolsHooks | ServiceHooks<unknown>;

export class Builder {
  readonly faults: Fault[] = [];
  readonly #supply: Supply;
  readonly #catalogue: Catalogue;
  readonly #config: Config;
  readonly #plugins: ReadonlyMap<string, Plugin>;
  readonly #core: CoreMetrics;
  readonly #parts: HandOver;
  readonly #dryRun: boolean;
  readonly #strict: boolean;

  constructor(
    config: Config,
    plugins: ReadonlyMap<string, Plugin>,
    services: Services,
    core: CoreMetrics,
    parts: HandOver,
    strict: boolean,
  ) {
    this.#config = config;
    this.#plugins = plugins;
    this.#core = core;
    this.#parts = parts;
    this.#dryRun = services.dryRun === true;
    this.#strict = strict;
    this.#catalogue = createCatalogue(services);
    this.#supply = new Supply(config, services, parts, this.#catalogue);
  }

  get ledgers(): Supply["ledgers"] {
    return this.#supply.ledgers;
  }

  get upstreams(): Supply["upstreams"] {
    return this.#supply.upstreams;
  }

  get networks(): Supply["networksInUse"] {
    return this.#supply.networksInUse;
  }

  get services(): Supply["services"] {
    return this.#supply.services;
  }

  /** Starts the services, each after the services that it uses, and before all other plugins. */
  async startServices(): Promise<void> {
    for (const use of this.#config.services) {
      const plugin = this.#plugins.get(use.name);
      if (plugin?.kind !== "service") continue;
      const hooks = await this.#start<ServiceHooks<unknown>>(plugin, use, "enforce");
      if (hooks !== undefined) this.#supply.services.set(use.name, hooks);
    }
  }

  /** Starts the `tools` plugins. Must run before any surface starts, because surfaces need the complete catalogue. */
  async tools(): Promise<void> {
    const instances: ToolsHooks[] = [];
    for (const use of this.#config.tools) {
      const plugin = this.#plugins.get(use.name);
      if (plugin?.kind !== "tools") continue;
      const instance = await this.#start<ToolsHooks>(plugin, use, "enforce");
      if (instance === undefined) continue;
      instances.push(instance);
      const problems = [
        ...this.#catalogue.add(instance.tools),
        ...this.#catalogue.addResources(instance.resources ?? []),
        ...this.#catalogue.addPrompts(instance.prompts ?? []),
      ];
      this.#catalogue.addTemplates(instance.resourceTemplates ?? []);
      for (const problem of problems) {
        this.#fault("SLUICE_TOOL_INVALID", `${use.name}: ${problem}`, use.at);
      }
    }
    this.#supply.catalogueIs(instances.map(instanceId).join());
  }

  async route(config: RouteConfig): Promise<CompiledRoute | undefined> {
    const steps = await this.#steps(config.path, config.run);
    const plugin = this.#plugins.get(config.to.name);
    if (plugin?.kind !== "surface") return undefined;
    const surface = await this.#start<SurfaceHooks>(plugin, config.to, "enforce");
    if (surface === undefined || steps === undefined) return undefined;
    const stats = new RouteStats(this.#core, config.path);
    const hooks = this.#strict ? heldToManifest(plugin, surface) : surface;
    const compiled = compileRoute(config, steps, hooks, stats);
    this.#document(compiled);
    return compiled;
  }

  #document(compiled: CompiledRoute): void {
    const hostOf = (name: string, mode: Host["mode"]): Host =>
      this.#supply.hostFor(this.#plugins.get(name) ?? { name }, mode).host;
    try {
      this.#supply.documented.push(documentRoute(compiled, this.#plugins, hostOf));
    } catch (error) {
      const { path, at } = compiled.config;
      const reason = error instanceof Error ? error.message : String(error);
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
    const stats = new RouteStats(this.#core, config.path);
    return compileRoute(config, steps, unmatchedSurface, stats);
  }

  async #steps(route: string, uses: readonly StepUse[]): Promise<PlacedStep[] | undefined> {
    const placed: PlacedStep[] = [];
    let whole = true;
    for (const [depth, use] of uses.entries()) {
      const plugin = this.#plugins.get(use.name);
      if (plugin?.kind !== "step") return undefined;
      const hooks = await this.#start<StepHooks>(plugin, use, use.mode);
      if (hooks === undefined) {
        whole = false;
        continue;
      }
      placed.push({
        name: use.name,
        depth,
        hooks: this.#strict ? heldToManifest(plugin, hooks) : hooks,
        shadow: use.mode === "shadow",
        when: use.when,
        timeoutMs: use.timeoutMs,
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
    if (plugin.uses?.some((name) => !this.#supply.services.has(name)) === true) return undefined;
    const { host, needs } = this.#supply.hostFor(plugin, mode);
    try {
      // The options were checked against the plugin's schema, which matches its `Options` type.
      const options = use.options as never;
      const wrong = plugin.check?.(options, host) ?? [];
      for (const { pointer, message } of wrong) {
        this.#fault("SLUICE_OPTION_INVALID", message, use.positionOf(pointer));
      }
      if (wrong.length > 0) return undefined;
      const key = `plugin ${mode} ${plugin.name} ${stableJson(use.options)}`;
      const stopsLast = plugin.kind === "service";
      const start = async (): Promise<Started<unknown>> => {
        const hooks = await this.#hooks(plugin, options, host);
        return { value: hooks, stop: () => hooks.stop?.(), needs, stopsLast };
      };
      const holds = (earlier: Needs): boolean => this.#supply.renew(earlier);
      // The plugin's kind determines which hooks `start` returns.
      return (await this.#parts.acquire(key, plugin, start, holds)) as Hooks;
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      this.#fault("SLUICE_PLUGIN_START", `${plugin.name} did not start: ${reason}`, use.at);
      return undefined;
    }
  }

  async #hooks(plugin: Plugin, options: never, host: Host): Promise<AnyHooks> {
    if (this.#dryRun && plugin.kind === "service" && plugin.dryRun !== undefined) {
      return { service: plugin.dryRun(options, host) };
    }
    return plugin.start(options, host);
  }

  #fault(code: SluiceCode, message: string, at: Position): void {
    this.faults.push(fault(code, message, { at }));
  }
}
