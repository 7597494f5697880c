/** Brings a checked configuration to life: starts its plugins and compiles its routes, collecting what goes wrong. */
import type { Config, PluginUse, RouteConfig, StepUse } from "../config/config.ts";
import { fault, type Fault, type Position } from "../config/fault.ts";
import type { SluiceCode } from "../errors.ts";
import type { Host, Plugin, StepHooks, SurfaceHooks, ToolsHooks } from "../plugin.ts";
import { createCatalogue, type Catalogue } from "../tools/catalogue.ts";
import { compileRoute, type CompiledRoute, type PlacedStep } from "./compile.ts";
import { documentRoute } from "./document.ts";
import type { HandOver, Needs } from "./hand-over.ts";
import type { Services } from "./services.ts";
import { heldToManifest } from "./strict.ts";
import { stableJson } from "./stable-json.ts";
import { RouteStats, type CoreMetrics } from "./stats.ts";
import { Supply } from "./supply.ts";
import { unmatchedSurface } from "./unmatched.ts";

export class Builder {
  readonly faults: Fault[] = [];
  readonly #supply: Supply;
  readonly #catalogue: Catalogue;
  readonly #config: Config;
  readonly #plugins: ReadonlyMap<string, Plugin>;
  readonly #core: CoreMetrics;
  readonly #parts: HandOver;
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

  /** Starts the `tools` plugins: before any surface, so that those find the catalogue complete. */
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
    const hostOf = (plugin: string, mode: Host["mode"]): Host =>
      this.#supply.hostFor(plugin, mode).host;
    try {
      this.#supply.documented.push(documentRoute(compiled, this.#plugins, hostOf));
    } catch (error) {
      const { path, at } = compiled.config;
      const reason = error instanceof Error ? error.message : String(error);
      this.#fault("SLUICE_PLUGIN_OPERATION", `${path} cannot be documented: ${reason}`, at);
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

  /** One instance per plugin, options and mode, whichever routes use it: buckets and caches are shared by them. */
  async #start<Hooks extends StepHooks | SurfaceHooks | ToolsHooks>(
    plugin: Plugin,
    use: PluginUse,
    mode: Host["mode"],
  ): Promise<Hooks | undefined> {
    const { host, needs } = this.#supply.hostFor(plugin.name, mode);
    try {
      // Options were checked against the plugin's schema, which is what its `Options` type describes.
      const options = use.options as never;
      const wrong = plugin.check?.(options, host) ?? [];
      for (const { pointer, message } of wrong) {
        this.#fault("SLUICE_OPTION_INVALID", message, use.positionOf(pointer));
      }
      if (wrong.length > 0) return undefined;
      const key = `plugin ${mode} ${plugin.name} ${stableJson(use.options)}`;
      const start = async (): Promise<{ value: unknown; stop: () => unknown; needs: Needs }> => {
        const hooks = await plugin.start(options, host);
        return { value: hooks, stop: () => hooks.stop?.(), needs };
      };
      const holds = (earlier: Needs): boolean => this.#supply.renew(earlier);
      // The plugin's kind says which hooks `start` returns.
      return (await this.#parts.acquire(key, plugin, start, holds)) as Hooks;
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      this.#fault("SLUICE_PLUGIN_START", `${plugin.name} did not start: ${reason}`, use.at);
      return undefined;
    }
  }

  #fault(code: SluiceCode, message: string, at: Position): void {
    this.faults.push(fault(code, message, { at }));
  }
}

const instanceIds = new WeakMap<object, number>();
let lastInstanceId = 0;

/** A number for an instance, the same as long as it lives. */
function instanceId(instance: object): number {
  const known = instanceIds.get(instance);
  if (known !== undefined) return known;
  lastInstanceId++;
  instanceIds.set(instance, lastInstanceId);
  return lastInstanceId;
}
