/** One of the threads that serve: the pipelines of pipeline.yaml and a listener on the port that all threads share. */
import { systemClock } from "../../base/clock.ts";
import { createLog } from "../../base/log.ts";
import { fault, type Fault } from "../../config/fault.ts";
import { parseConfig } from "../../config/read.ts";
import { listen } from "../../http/listen.ts";
import { failingServers } from "../../http/backend-servers.ts";
import { backendsOf, ReadinessWatch } from "../../http/readiness.ts";
import { checkParsed, type ValidatedConfig } from "../../pipeline/load/check-file.ts";
import { Closer, ClosingStack } from "../../pipeline/load/closer.ts";
import { gatewayInfo, type GatewayInfoDeps } from "../../pipeline/load/gateway-info.ts";
import { provision, type Generation, type Provisioned } from "../../pipeline/load/generation.ts";
import { shippedServices } from "../../pipeline/load/modules.ts";
import { ExplanationStore } from "../../pipeline/observe/explanation-store.ts";
import type { ExchangeObserver } from "../../pipeline/observe/record.ts";
import { coreMetrics } from "../../pipeline/observe/stats.ts";
import type { BackendStatus, Clock, Log, Threads } from "../../plugin.ts";
import { StartError } from "../../start-error.ts";
import { explainEverywhere } from "../explain-everywhere.ts";
import { openHostResources } from "../open-host-resources.ts";
import { joinThreads, memoryOver } from "./ports.ts";
import { forwardSettled } from "./settled.ts";
import { threadLog } from "./thread-log.ts";
import { threadName } from "./thread-replicas.ts";
import {
  beatBytes,
  beatMemory,
  beatMs,
  closeCall,
  commitTopic,
  drainTopic,
  dropTopic,
  failingCall,
  failingTopic,
  lastMetricsTopic,
  metricsCall,
  prepareCall,
  retiredTopic,
  startedTopic,
  type PipelineFile,
  type Started,
  type ThreadStart,
} from "./thread-start.ts";

export interface ServingThread {
  /** Time limit of the drain after a fatal error. */
  readonly limitMs: number;
  /** Drains after a fatal error, while another thread takes the place of this one. */
  fail(): Promise<void>;
  /** Resolves when the main thread has ended the listener and everything is closed. */
  readonly ended: Promise<void>;
}

/** Returns undefined if the thread could not start, which the main thread then knows. */
export async function runThread(start: ThreadStart): Promise<ServingThread | undefined> {
  const clock = systemClock;
  const early = createLog({ level: "warn" }).child({ thread: start.index });
  const threads = joinThreads(start, start.messages, memoryOver(start.memory), {
    clock,
    log: early,
  });
  const send = (started: Started): void => threads.send(startedTopic, started, 0);
  let stack: ClosingStack | undefined;
  try {
    const validated = await check(start.file, start);
    const log = threadLog(validated.config.log.level, threads, start.sendsLog);
    stack = new ClosingStack(new Closer({ clock, log }));
    const thread = await assemble(validated, start, { threads, clock, log, stack });
    send({ faults: [] });
    return thread;
  } catch (error) {
    await stack?.disposeAsync();
    const { faults } =
      error instanceof StartError
        ? error
        : { faults: [fault("SLUICE_START_FAILED", `a thread did not start: ${String(error)}`)] };
    send({ faults });
    return undefined;
  }
}

/** Checks the text that the main thread has read, so that all threads serve the same file. */
async function check(
  { path, text, without }: PipelineFile,
  { env }: ThreadStart,
): Promise<ValidatedConfig> {
  const parsed = parseConfig(text, path, env, await shippedServices());
  const { validated, faults } = await checkParsed(parsed, { without });
  if (validated === undefined) throw new StartError(faults);
  return validated;
}

interface ThreadDeps {
  readonly threads: Threads;
  readonly clock: Clock;
  readonly log: Log;
  readonly stack: ClosingStack;
}

async function assemble(
  validated: ValidatedConfig,
  start: ThreadStart,
  deps: ThreadDeps,
): Promise<ServingThread> {
  const { threads, clock, log, stack } = deps;
  const { strict } = start;
  const { config } = validated;
  const late: { started?: GatewayInfoDeps } = {};
  const explanations = new ExplanationStore();
  const forwarded = stack.use(forwardSettled(threads, clock));
  const observers = new Set<ExchangeObserver>([
    (record) => explanations.settled(record),
    forwarded.settled,
  ]);
  const gateway = gatewayInfo(
    (name) => start.env[name],
    observers,
    () => late.started,
  );
  const resources = await openHostResources(config, { clock, log, gateway, threads }, stack);
  const { metrics, held, store } = resources;
  const core = coreMetrics(metrics);
  const { generation, faults } = await provision(validated, resources, core, undefined, strict);
  if (generation === undefined) throw new StartError(faults);
  const state = { draining: false, generation };
  stack.defer(() => state.generation.retire(stack.closer));
  const watch = stack.use(
    new ReadinessWatch(() => ({ ...state, wanted: config.server.ready }), clock),
  );
  const ready: GatewayInfoDeps["ready"] = () => watch.report();
  const server = { ...config.server, host: start.host, port: start.port };
  const { closer } = stack;
  const parts = { server, generation, clock, log, metrics, held, closer, threads };
  const listener = await listen({ ...parts, readiness: ready, observers });
  stack.defer(() => listener.close(0));
  const everywhere = stack.use(
    explainEverywhere(
      (requestId) => explanations.find(requestId),
      store.replicas && { replicas: store.replicas, name: threadName(threads.index) },
      log,
    ),
  );
  late.started = {
    origin: `http://${server.host}:${server.port}`,
    generation: () => state.generation,
    reload: () => ({}),
    ready,
    backends: () => backendsOf(state.generation),
    exchanges: () => listener.running,
    explain: (requestId) => explanations.find(requestId),
    explainEverywhere: (requestId) => everywhere.find(requestId),
    metrics,
  };
  followReloads(start, deps, {
    build: (next) => provision(next, resources, core, state.generation, strict),
    swap(next) {
      const old = state.generation;
      state.generation = next;
      next.update();
      listener.swap(next);
      return old.retire();
    },
  });
  const beats = new Int32Array(threads.memory(beatMemory, beatBytes(threads.slots)));
  const beat = (): void => {
    Atomics.store(beats, 2 * threads.index + 1, listener.running);
    Atomics.add(beats, 2 * threads.index, 1);
  };
  stack.use(clock.every(beatMs, beat));
  stack.use(threads.serve(metricsCall, () => metrics.dump()));
  const failing = (): readonly BackendStatus[] =>
    backendsOf(state.generation).filter(
      (backend) => backend.ready !== true || failingServers(backend).length > 0,
    );
  stack.use(threads.serve(failingCall, () => JSON.stringify(failing())));
  const beginDrain = (): void => {
    state.draining = true;
    listener.beginDrain();
  };
  stack.use(threads.receive(drainTopic, beginDrain));
  const ended = Promise.withResolvers<void>();
  const close = async (ms: number): Promise<void> => {
    beginDrain();
    await listener.close(ms);
    await stack.disposeAsync();
    threads.send(lastMetricsTopic, metrics.dump(), 0);
    ended.resolve();
  };
  let closing: Promise<void> | undefined;
  threads.serve(closeCall, (ms) => (closing ??= close(Number(ms))));
  const limitMs = config.server.drainSeconds * 1_000;
  return {
    limitMs,
    fail() {
      threads.send(failingTopic, undefined, 0);
      return (closing ??= close(limitMs));
    },
    ended: ended.promise,
  };
}

interface Swap {
  readonly build: (next: ValidatedConfig) => Promise<Provisioned>;
  /** Serves new requests with this generation. Resolves when the previous one has stopped. */
  readonly swap: (next: Generation) => Promise<void>;
}

/** Prepares the generation of a reload, then serves it or drops it, as the main thread decides. */
function followReloads(
  start: ThreadStart,
  { threads, log, stack }: ThreadDeps,
  { build, swap }: Swap,
): void {
  /** The numbers are those of the main thread. */
  let number = start.file.generation;
  let prepared: { readonly generation: Generation; readonly number: number } | undefined;
  const failed = (error: unknown): void =>
    log.error({ err: error }, "the previous generation did not stop cleanly");
  const drop = async (): Promise<void> => {
    const dropped = prepared;
    prepared = undefined;
    await dropped?.generation.retire();
  };
  const prepare = async (file: PipelineFile): Promise<readonly Fault[]> => {
    await drop();
    const { generation, faults } = await build(await check(file, start));
    prepared = generation && { generation, number: file.generation };
    return faults;
  };
  stack.defer(drop);
  stack.use(
    threads.serve(prepareCall, async (file) => {
      try {
        // Only the main thread calls this.
        return await prepare(file as PipelineFile);
      } catch (error) {
        if (error instanceof StartError) return error.faults;
        throw error;
      }
    }),
  );
  stack.use(
    threads.receive(commitTopic, () => {
      const next = prepared;
      prepared = undefined;
      if (next === undefined) return;
      const previous = number;
      number = next.number;
      void swap(next.generation)
        .catch(failed)
        .then(() => threads.send(retiredTopic, previous, 0));
    }),
  );
  stack.use(threads.receive(dropTopic, () => void drop().catch(failed)));
}
