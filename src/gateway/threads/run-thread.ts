import { systemClock } from "../../base/clock.ts";
import { createLog } from "../../base/log.ts";
import { fault } from "../../config/fault.ts";
import { readText } from "../../config/read.ts";
import { listen } from "../../http/listen.ts";
import { failingServers } from "../../http/backend-servers.ts";
import { backendsOf, ReadinessWatch } from "../../http/readiness.ts";
import { checkParsed, type ValidatedConfig } from "../../pipeline/load/check-file.ts";
import { Closer, ClosingStack } from "../../pipeline/load/closer.ts";
import { gatewayInfo, type GatewayInfoDeps } from "../../pipeline/load/gateway-info.ts";
import { provision } from "../../pipeline/load/generation.ts";
import { shippedServices } from "../../pipeline/load/modules.ts";
import { ExplanationStore } from "../../pipeline/observe/explanation-store.ts";
import type { ExchangeObserver } from "../../pipeline/observe/record.ts";
import { coreMetrics } from "../../pipeline/observe/stats.ts";
import type { BackendStatus, Clock, Log, Threads } from "../../plugin.ts";
import { StartError } from "../../start-error.ts";
import { explainEverywhere } from "../explain-everywhere.ts";
import { openHostResources } from "../open-host-resources.ts";
import { followReloads } from "./follow-reloads.ts";
import { joinThreads, memoryOver } from "./ports.ts";
import { forwardSettled } from "./settled.ts";
import { threadLog } from "./thread-log.ts";
import { threadName } from "./thread-replicas.ts";
import {
  beatBytes,
  beatMemory,
  beatMs,
  closeCall,
  drainTopic,
  failingCall,
  failingTopic,
  lastMetricsTopic,
  listenCall,
  metricsCall,
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
  const parsed = await readText(text, path, env, await shippedServices());
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
  const gateway = gatewayInfo(start.env, observers, () => late.started);
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
  if ((await threads.call(listenCall, undefined)) !== true) {
    throw new Error("the gateway stops, or its file was reloaded");
  }
  const listener = await listen({ ...parts, readiness: ready, observers });
  stack.defer(() => listener.close(0));
  const everywhere = stack.use(
    explainEverywhere(
      explanations,
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
  followReloads(start.file.generation, deps, {
    async build(file) {
      const next = await check(file, start);
      return provision(next, resources, core, state.generation, strict);
    },
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
