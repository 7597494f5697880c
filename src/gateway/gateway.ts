import { systemClock } from "../base/clock.ts";
import type { Config } from "../config/config.ts";
import { createLog } from "../base/log.ts";
import { checkFile, type ValidatedConfig } from "../pipeline/load/check-file.ts";
import { Closer, ClosingStack } from "../pipeline/load/closer.ts";
import { describePipelines } from "../pipeline/load/describe.ts";
import { gatewayInfo, type GatewayInfoDeps } from "../pipeline/load/gateway-info.ts";
import { provision, type Generation } from "../pipeline/load/generation.ts";
import { coreMetrics } from "../pipeline/observe/stats.ts";
import type { ExchangeObserver } from "../pipeline/observe/record.ts";
import { ExplanationStore } from "../pipeline/observe/explanation-store.ts";
import type { Clock, Log, ServiceName, ServiceTypes, Metrics } from "../plugin.ts";
import { startAdmin, type Admin } from "../http/admin.ts";
import { backendMetrics, worstBackends } from "../http/backend-servers.ts";
import { authorityOf } from "../http/bind.ts";
import { explainEverywhere } from "./explain-everywhere.ts";
import { listen, type Listener } from "../http/listen.ts";
import { MainThreads } from "./threads/ports.ts";
import type { ThreadPool } from "./threads/pool.ts";
import { receiveSettled, type Observers } from "./threads/settled.ts";
import { receiveLines } from "./threads/thread-log.ts";
import { serveThreadList, threadName } from "./threads/thread-replicas.ts";
import { openHostResources } from "./open-host-resources.ts";
import { backendsOf, ReadinessWatch } from "../http/readiness.ts";
import { FileReloader, type Reloader } from "./reload.ts";
import { StartError } from "../start-error.ts";
import { version } from "../base/version.ts";

export interface StartOptions {
  readonly configFile: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly clock?: Clock;
  readonly log?: Log;
  readonly watch?: boolean;
  /**
   * For development and tests (default false): a plugin that violates its manifest, or writes to an object that it must
   * only read, fails with an error that names it (src/pipeline/load/strict.ts). With `watch`, saving the code of a
   * local plugin reloads it.
   */
  readonly strict?: boolean;
  /** Services that do not run, although every gateway or one of its plugins would start them if they are installed. */
  readonly without?: readonly string[];
  /** Replaces the setting of the configuration. A test has no load balancer that must notice the drain first. */
  readonly drainDelaySeconds?: number;
}

export interface Gateway {
  readonly config: Config;
  readonly log: Log;
  readonly url: string;
  readonly adminUrl: string;
  readonly reloader: Reloader;
  readonly listener: Listener;
  use<Name extends ServiceName>(name: Name): ServiceTypes[Name] | undefined;
  /**
   * Drains (decisions.md section 12). Further calls return the same promise. Resolves when every exchange has settled
   * and every port is closed. A part that does not end within a few seconds is logged and abandoned.
   */
  stop(): Promise<void>;
}

export async function startGateway(options: StartOptions): Promise<Gateway> {
  const { without = [] } = options;
  const { validated, faults } = await checkFile(options.configFile, options.env, { without });
  if (validated === undefined) throw new StartError(faults);
  const clock = options.clock ?? systemClock;
  const log = options.log ?? createLog({ level: validated.config.log.level });
  // Closed in reverse order if the start fails half-way and when the gateway stops.
  const stack = new ClosingStack(new Closer({ clock, log }));
  try {
    return await assemble(validated, { ...options, clock, log }, stack);
  } catch (error) {
    await stack.disposeAsync();
    throw StartError.from(error, validated.config);
  }
}

async function assemble(
  validated: ValidatedConfig,
  options: StartOptions & { readonly clock: Clock; readonly log: Log },
  stack: ClosingStack,
): Promise<Gateway> {
  const { config } = validated;
  const { clock, log, strict = false } = options;
  const late: { admin?: Admin; started?: GatewayInfoDeps; pool?: ThreadPool } = {};
  // Opened first, so closed last: metrics and health stay readable until everything else has stopped.
  stack.add("admin listener", () => late.admin?.close());
  const explanations = new ExplanationStore();
  const { server } = config;
  const threads = server.threads > 1 ? new MainThreads(server.threads, { clock, log }) : undefined;
  const observers = new Set<ExchangeObserver>();
  // With several threads, each one keeps its own exchanges, and the main thread has none.
  if (threads === undefined) observers.add((record) => explanations.settled(record));
  const gateway = gatewayInfo(options.env, observers, () => late.started);
  const resources = await openHostResources(config, { clock, log, gateway, threads }, stack);
  const { metrics, held } = resources;
  countBuild(metrics);
  const core = coreMetrics(metrics);
  const { generation, faults } = await provision(validated, resources, core, undefined, strict);
  if (generation === undefined) throw new StartError(faults);
  const state: State = { draining: false, generation };
  stack.defer(() => state.generation.retire(stack.closer));
  const backends: GatewayInfoDeps["backends"] = () => {
    const own = backendsOf(state.generation);
    return late.pool === undefined ? own : worstBackends(own, late.pool.failing);
  };
  const watch = new ReadinessWatch(
    () => ({
      ...state,
      backends: backends(),
      wanted: server.ready,
      ...(late.pool && { threads: late.pool.check }),
    }),
    clock,
  );
  stack.use(watch);
  const ready: GatewayInfoDeps["ready"] = () => watch.report();
  const { closer } = stack;
  const parts = { server, generation, clock, log, metrics, held, closer };
  const pool = threads && (await openPool(threads, options, generation, observers, stack));
  if (pool !== undefined) late.pool = pool;
  const listener = pool ?? (await listen({ ...parts, readiness: ready, observers }));
  stack.defer(() => listener.close(0));
  if (pool !== undefined) metrics.addUp(pool);
  const reloader = new FileReloader({
    ...options,
    metrics,
    current: generation,
    plugins: validated.plugins,
    async build(next, previous) {
      const built = await provision(next, resources, core, previous, strict);
      return pool === undefined ? built : await pool.prepare(built);
    },
    swap(next) {
      state.generation = next;
      next.update();
      listener.swap(next);
      // The next heartbeat publishes them.
      void resources.publishSettings(next.config).catch((error: unknown) => {
        log.error({ err: error }, "cannot publish the settings of this gateway");
      });
    },
  });
  stack.use(reloader);
  const { postgres, replicas } = resources.store;
  const everywhere = explainEverywhere(
    explanations,
    replicas && { replicas, name: postgres?.replica ?? threadName(0) },
    log,
  );
  stack.use(everywhere);
  backendMetrics(metrics, backends);
  const scheme = server.tls === undefined ? "http" : "https";
  const url = `${scheme}://${authorityOf(listener.host, listener.port)}`;
  late.started = {
    origin: url,
    generation: () => state.generation,
    reload: () => reloader.state,
    ready,
    backends,
    exchanges: () => listener.running,
    explain: (requestId) => explanations.find(requestId),
    explainEverywhere: (requestId) => everywhere.find(requestId),
    metrics,
  };
  late.admin = await startAdmin({
    ...config.admin,
    explain: late.started.explainEverywhere,
    ready,
    metrics,
    pipelines: () => ({
      ...describePipelines(state.generation, reloader.state),
      ...(pool && { threads: pool.described }),
    }),
    service: (name) => state.generation.services.get(name),
    log,
  });
  const stop = createStop({ options, config, clock, state, reloader, listener, stack });
  return {
    config,
    log,
    url,
    adminUrl: late.admin.url,
    reloader,
    listener,
    // The plugin that declares the type of a service under a name is the one that provides it.
    use: <Name extends ServiceName>(name: Name) =>
      state.generation.services.get(name)?.service as ServiceTypes[Name] | undefined,
    stop,
  };
}

/** The module of the threads loads the inspector, so it is imported only if it is used. */
async function openPool(
  threads: MainThreads,
  options: StartOptions & { readonly clock: Clock; readonly log: Log },
  generation: Generation,
  observers: ReadonlySet<ExchangeObserver>,
  stack: ClosingStack,
): Promise<ThreadPool> {
  const { env, without = [], strict = false, log, clock } = options;
  stack.use(receiveLines(threads, log));
  // All of them belong to plugins, which know only the members of a SettledExchange.
  stack.use(receiveSettled(threads, observers as ReadonlySet<unknown> as Observers));
  stack.use(serveThreadList(threads));
  const sendsLog = log.line !== undefined;
  const { ThreadPool } = await import("./threads/pool.ts");
  return ThreadPool.open({
    threads,
    generation,
    start: { env: { ...env }, strict, sendsLog },
    without,
    clock,
    log,
  });
}

interface State {
  draining: boolean;
  generation: Generation;
}

function createStop(parts: {
  readonly options: StartOptions & { readonly log: Log };
  readonly config: Config;
  readonly clock: Clock;
  readonly state: State;
  readonly reloader: Reloader;
  readonly listener: Listener;
  readonly stack: AsyncDisposableStack;
}): () => Promise<void> {
  const { log } = parts.options;
  const { options, config, clock, state, reloader, listener, stack } = parts;
  const { drainSeconds } = config.server;
  const { drainDelaySeconds = config.server.drainDelaySeconds } = options;
  const drain = async (): Promise<void> => {
    // The clock's timers do not keep the process alive, and neither may a part that hangs. This timer does.
    using running = new DisposableStack();
    running.adopt(
      setInterval(() => {}, 1_000),
      clearInterval,
    );
    state.draining = true;
    log.info({ requests: listener.running, drainDelaySeconds, drainSeconds }, "the drain begins");
    reloader[Symbol.dispose]();
    listener.beginDrain();
    await wait(clock, drainDelaySeconds * 1000);
    await listener.close(drainSeconds * 1000);
    log.info({}, "the drain has ended");
    await stack.disposeAsync();
  };
  let stopped: Promise<void> | undefined;
  return () => {
    stopped ??= drain();
    return stopped;
  };
}

async function wait(clock: Clock, ms: number): Promise<void> {
  if (ms <= 0) return;
  await new Promise<void>((resolve) => clock.after(ms, resolve));
}

function countBuild(metrics: Metrics): void {
  metrics
    .gauge(
      "sluice_build_info",
      "Always 1. The labels contain the versions of Sluice and Node.",
      ["version", "node"],
      { isSameInThreads: true },
    )
    .with({ version, node: process.versions.node })
    .set(1);
}
