/** Serves steps and surfaces of a test on a real port, without a file, a store or an upstream. */
import { request, type IncomingHttpHeaders } from "node:http";
import type { Config, RouteConfig, ServerConfig, StepUse } from "../../src/config/config.ts";
import {
  defineStep,
  defineSurface,
  type Clock,
  type Host,
  type Log,
  type Metrics,
  type Plugin,
  type StepHooks,
  type SurfaceHooks,
} from "../../src/plugin.ts";
import { provision, type Generation } from "../../src/pipeline/load/generation.ts";
import { Closer } from "../../src/pipeline/load/closer.ts";
import { inertResources } from "../../src/pipeline/load/dry-run.ts";
import type { PluginOrigin } from "../../src/pipeline/load/loaded-plugins.ts";
import type { HostResources } from "../../src/pipeline/load/host-resources.ts";
import type { ExchangeObserver } from "../../src/pipeline/observe/record.ts";
import type { RenderedMetrics } from "../../src/base/metrics.ts";
import { coreMetrics } from "../../src/pipeline/observe/stats.ts";
import { HeldBytes } from "../../src/memory/held-bytes.ts";
import { listen, type Listener } from "../../src/http/listen.ts";
import { systemClock } from "../../src/base/clock.ts";
import { silentLog } from "../test-log.ts";

export interface TestStep extends StepHooks {
  readonly name: string;
  readonly mode?: "enforce" | "shadow";
  readonly when?: StepUse["when"];
  readonly timeoutMs?: number;
  readonly onError?: "refuse" | "skip";
  readonly onStart?: (host: Host) => void;
}

export interface TestRoute {
  readonly path: string;
  readonly methods?: readonly string[];
  readonly websocket?: boolean;
  readonly steps?: readonly TestStep[];
  readonly surface: SurfaceHooks;
}

export interface Served extends AsyncDisposable {
  readonly url: string;
  readonly port: number;
  readonly listener: Listener;
  readonly errors: string[];
  readonly warnings: string[];
  readonly generation: Generation;
  /** Loads other routes, as a reload does. `plugins`: replace those of the same name. */
  reload(routes: readonly TestRoute[], plugins?: readonly Plugin[]): Promise<Generation>;
}

const at = { file: "pipeline.yaml", line: 1, col: 1 };

const nothing = { with: () => ({ add() {}, set() {}, observe() {}, remove() {} }) };
/** Returns the counts above 0 of the steps and surfaces by their name. `what`: see `stepMetrics`. */
export function stepCounts(
  metrics: Pick<RenderedMetrics, "read">,
  what: string,
): Readonly<Record<string, number>> {
  const samples = metrics.read(`sluice_step_${what}_total`).filter(({ value }) => value > 0);
  return Object.fromEntries(samples.map(({ labels, value }) => [labels["step"], value]));
}

export const noMetrics: Metrics = {
  counter: () => nothing,
  gauge: () => nothing,
  histogram: () => nothing,
};

const server: ServerConfig & { readonly unfinishedBodyBytes: number } = {
  host: "127.0.0.1",
  port: 0,
  trustProxy: [],
  drainSeconds: 5,
  ready: "any",
  drainDelaySeconds: 0,
  headersMs: 5_000,
  bodyIdleMs: 5_000,
  unfinishedBodyBytes: 1 << 24,
  connections: 1_000,
  keepAliveMs: 5_000,
  threads: 1,
  fastPath: true,
};

export async function serve(
  routes: readonly TestRoute[],
  options: {
    readonly server?: Partial<ServerConfig>;
    readonly unmatched?: readonly TestStep[];
    readonly ready?: () => boolean;
    /** Default: real time. */
    readonly clock?: Clock;
    readonly observers?: readonly ExchangeObserver[];
    readonly metrics?: Metrics;
  } = {},
): Promise<Served> {
  const errors: string[] = [];
  const warnings: string[] = [];
  const log: Log = {
    debug() {},
    info() {},
    warn: (_, message) => warnings.push(message),
    error: (fields, message) => errors.push(`${message} ${JSON.stringify(fields)}`),
    child: () => log,
  };
  const { clock = systemClock } = options;
  const resources = { ...testResources(log), clock };
  const closer = new Closer(resources);
  const core = coreMetrics(options.metrics ?? noMetrics);
  const serverConfig = { ...server, ...options.server };
  const load = async (
    wanted: readonly TestRoute[],
    previous?: Generation,
    replaced: readonly Plugin[] = [],
  ): Promise<Generation> => {
    const { config, plugins } = describe(wanted, options.unmatched ?? [], serverConfig);
    for (const plugin of replaced) plugins.set(plugin.name, plugin);
    const validated = { config, plugins, origins: new Map<string, PluginOrigin>() };
    const { generation, faults } = await provision(validated, resources, core, previous);
    if (generation === undefined) throw new Error(JSON.stringify(faults));
    return generation;
  };
  let generation = await load(routes);
  const listener = await listen({
    server: serverConfig,
    generation,
    clock,
    log,
    metrics: options.metrics ?? noMetrics,
    held: new HeldBytes(serverConfig.unfinishedBodyBytes, options.metrics ?? noMetrics),
    closer,
    observers: options.observers ?? [],
    readiness: () => ({ ready: options.ready?.() ?? true, checks: {} }),
  });
  return {
    url: `http://127.0.0.1:${listener.port}`,
    port: listener.port,
    listener,
    errors,
    warnings,
    get generation() {
      return generation;
    },
    async reload(wanted, replaced) {
      const next = await load(wanted, generation, replaced);
      const old = generation;
      generation = next;
      listener.swap(next);
      void old.retire();
      return old;
    },
    async [Symbol.asyncDispose]() {
      await listener.close(1_000);
      await generation.retire(closer);
    },
  };
}

/** For tests of parts that end at once. */
export function quietCloser(): Closer {
  return new Closer({ clock: systemClock, log: silentLog });
}

export function testResources(log: Log): HostResources {
  return { ...inertResources({}), dryRun: false, log, metrics: noMetrics };
}

function describe(
  routes: readonly TestRoute[],
  unmatched: readonly TestStep[],
  serverConfig: ServerConfig,
): { config: Config; plugins: Map<string, Plugin> } {
  const plugins = new Map<string, Plugin>();
  const uses = (steps: readonly TestStep[]): StepUse[] =>
    steps.map((step) => {
      const { name, mode, when, timeoutMs, onError, onStart, ...hooks } = step;
      plugins.set(
        name,
        defineStep<never>({
          name: name,
          description: "",
          start(_: never, host: Host) {
            onStart?.(host);
            return hooks;
          },
        }),
      );
      return {
        name: name,
        options: {},
        at,
        positionOf: () => at,
        mode: mode ?? "enforce",
        when,
        timeoutMs: timeoutMs ?? 30_000,
        onError: onError ?? "refuse",
      };
    });
  const routeConfigs = routes.map((route, index): RouteConfig => {
    const name = `surface-${index}`;
    plugins.set(name, defineSurface<never>({ name, description: "", start: () => route.surface }));
    return {
      path: route.path,
      methods: route.websocket === true ? ["GET"] : (route.methods ?? ["GET", "POST"]),
      websocket: route.websocket ?? false,
      run: uses(route.steps ?? []),
      to: { name, options: {}, at, positionOf: () => at },
      at,
    };
  });
  const config: Config = {
    file: "/pipeline.yaml",
    text: "",
    keyAt: () => at,
    sectionOf: () => undefined,
    environment: "dev",
    server: serverConfig,
    admin: { host: "127.0.0.1", port: 0, hosts: [], trustProxy: [] },
    store: { data: "data", redis: undefined, postgres: undefined, replica: undefined },
    sections: {},
    isDefault: () => false,
    keysOf: () => [],
    log: { level: "silent" },
    secret: undefined,
    tools: [],
    services: [],
    plugins: new Map(),
    fastify: [],
    unmatched: uses(unmatched),
    routes: routeConfigs,
  };
  return { config, plugins };
}

export interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
  readonly trailers: NodeJS.Dict<string>;
}

/** Sends one request on its own connection. Rejects if the answer breaks off. */
export function ask(
  served: { readonly port: number },
  path: string,
  options: {
    method?: string;
    headers?: Record<string, string>;
    body?: string | Uint8Array;
  } = {},
): Promise<Answer> {
  const { promise, resolve, reject } = Promise.withResolvers<Answer>();
  const { method = "GET", headers = {}, body } = options;
  const req = request({
    port: served.port,
    host: "127.0.0.1",
    path,
    method,
    headers,
    agent: false,
  });
  req.on("error", reject);
  req.on("response", (res) => {
    const chunks: Buffer[] = [];
    res.on("data", (chunk: Buffer) => chunks.push(chunk));
    res.on("error", reject);
    res.on("end", () => {
      const { statusCode: status = 0, trailers } = res;
      resolve({ status, headers: res.headers, body: Buffer.concat(chunks).toString(), trailers });
    });
  });
  req.end(body);
  return promise;
}
