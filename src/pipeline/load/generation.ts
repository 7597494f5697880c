/**
 * A generation: the plugins and routes that were started for one version of pipeline.yaml. A reload provisions a whole
 * new generation. Plugins that have not changed are carried over, and the others stop when the last exchange of the old
 * generation has ended.
 */
import type { Config } from "../../config/config.ts";
import { runGuarded } from "../../base/guard.ts";
import { withinLimit } from "../../base/time-limit.ts";
import { orderFaults, type Fault } from "../../config/fault.ts";
import type { Clock, PluginFacts, ServiceHooks } from "../../plugin.ts";
import { Builder } from "./builder.ts";
import type { ValidatedConfig } from "./check-file.ts";
import { Closer } from "./closer.ts";
import type { CompiledRoute } from "../run/compile.ts";
import { pluginFacts } from "./loaded-plugins.ts";
import { PluginCarryOver } from "./plugin-carry-over.ts";
import { credentialRemover } from "./path-credential.ts";
import { createRouter, type Router } from "./router.ts";
import type { HostResources } from "./host-resources.ts";
import type { CoreMetrics } from "../observe/stats.ts";

export interface Generation {
  readonly number: number;
  readonly config: Config;
  readonly router: Router;
  readonly withoutCredential: ReturnType<typeof credentialRemover>;
  /** The steps for requests that match no route. Such requests end in 404 or 405. */
  readonly unmatched: CompiledRoute;
  readonly routes: readonly CompiledRoute[];
  readonly services: ReadonlyMap<string, ServiceHooks<unknown>>;
  /** The loaded plugins, in alphabetical order, including steps with `mode: off`. */
  readonly plugins: readonly PluginFacts[];
  readonly runsOnce: readonly string[];
  readonly carryOver: PluginCarryOver;
  /** Passes the new options to services that were carried over. Called when this generation starts to serve. */
  update(): void;
  /** `leave` must be called when the exchange ends. */
  enter(): void;
  leave(): void;
  /**
   * Called once no new exchange will enter. When the last exchange has left, everything that only this generation used
   * is stopped. With a `closer`, that is, when the gateway itself stops, it does not wait for exchanges.
   */
  retire(closer?: Closer): Promise<void>;
}

export interface Provisioned {
  readonly generation: Generation | undefined;
  readonly faults: readonly Fault[];
}

/**
 * Starts every plugin of a validated configuration, and waits for a short time until new services know whether they can
 * serve. After a fault, nothing stays started. `strict`: plugins are checked against their manifests.
 */
export async function provision(
  validated: ValidatedConfig,
  resources: HostResources,
  core: CoreMetrics,
  previous?: Generation,
  strict = false,
): Promise<Provisioned> {
  const { config, plugins } = validated;
  const carryOver = new PluginCarryOver(previous?.carryOver);
  const builder = new Builder(config, plugins, resources, core, carryOver, strict);
  const routes: CompiledRoute[] = [];
  await builder.startServices();
  for (const route of config.routes) {
    const compiled = await builder.route(route);
    if (compiled !== undefined) routes.push(compiled);
  }
  const unmatched = await builder.unmatched();
  if (builder.faults.length > 0 || unmatched === undefined) {
    await carryOver.release(new Closer(resources)).catch((error: unknown) => {
      resources.log.error({ err: error }, "the plugins of a failed load did not stop cleanly");
    });
    return { generation: undefined, faults: orderFaults(builder.faults) };
  }
  carryOver.complete();
  const initialized = Array.from(builder.services.values(), async (hooks) => hooks.initialized?.());
  await awaitBackends(initialized, resources.clock);
  const number = (previous?.number ?? 0) + 1;
  return {
    generation: createGeneration(
      number,
      validated,
      routes,
      unmatched,
      builder,
      carryOver,
      resources,
    ),
    faults: [],
  };
}

function createGeneration(
  number: number,
  { config, plugins, origins }: ValidatedConfig,
  routes: readonly CompiledRoute[],
  unmatched: CompiledRoute,
  { services: running, updates }: Builder,
  carryOver: PluginCarryOver,
  { clock, log }: HostResources,
): Generation {
  let exchanges = 0;
  let retired = false;
  const empty = Promise.withResolvers<void>();
  return {
    number,
    config,
    router: createRouter(routes),
    withoutCredential: credentialRemover(config.routes),
    unmatched,
    routes,
    services: running,
    plugins: pluginFacts(plugins, origins),
    runsOnce: [...plugins.values()].flatMap((plugin) =>
      plugin.kind === "service" && plugin.runsOnce === true ? [plugin.name] : [],
    ),
    carryOver,
    update() {
      const failed = (error: unknown): void =>
        log.error({ err: error }, "a service could not take over its new options");
      for (const update of updates) runGuarded(update, failed);
    },
    enter() {
      exchanges++;
    },
    leave() {
      exchanges--;
      if (retired && exchanges === 0) empty.resolve();
    },
    async retire(closer) {
      retired = true;
      if (exchanges === 0 || closer !== undefined) empty.resolve();
      await empty.promise;
      await carryOver.release(closer ?? new Closer({ clock, log }));
    },
  };
}

/** A backend that hangs must not delay a start or a reload for longer. */
const maxBackendMs = 2_000;

/** A generation should begin ready to serve. */
export async function awaitBackends(
  initialized: readonly (Promise<void> | undefined)[],
  clock: Clock,
): Promise<void> {
  const all = Promise.allSettled(initialized.map(async (each) => each));
  await withinLimit(all, maxBackendMs, clock);
}
