import { MessageChannel, Worker } from "node:worker_threads";
import type { FamilyDump } from "../../base/metrics.ts";
import { threadModule } from "../../base/package-files.ts";
import type { Generation } from "../../pipeline/load/generation.ts";
import type { BackendStatus, Clock } from "../../plugin.ts";
import type { MainThreads } from "./ports.ts";
import type { PipelineFile, Started, ThreadStart } from "./thread-start.ts";

const program = threadModule("src/commands/gateway-thread");

/** The three spaces for new objects, each as large as the process has them (src/commands/server-process.ts). */
const youngGenerationMb = 24;

export interface Thread {
  readonly index: number;
  readonly worker: Worker;
  readonly startedAt: number;
  readonly started: PromiseWithResolvers<Started>;
  readonly exited: PromiseWithResolvers<void>;
  /** A thread that starts may be ended at any time. One that listens may have requests. */
  state: "starting" | "listening" | "serving" | "draining";
  generation: number;
  /** The earlier generations of the main thread that this thread may still run. */
  readonly running: Map<number, Generation>;
  /** Number of beats at the last check, and number of checks since the last beat. */
  beats: number;
  missed: number;
  metrics: readonly FamilyDump[];
  failing: readonly BackendStatus[];
}

export interface SpawnOptions {
  readonly threads: MainThreads;
  readonly start: Pick<ThreadStart, "env" | "strict" | "sendsLog">;
  readonly clock: Clock;
}

export function spawnThread(
  index: number,
  file: PipelineFile,
  { host, port }: Pick<ThreadStart, "host" | "port">,
  { threads, start, clock }: SpawnOptions,
): Thread {
  const messages = new MessageChannel();
  const memory = new MessageChannel();
  const workerData: ThreadStart = {
    ...start,
    index,
    count: threads.count,
    messages: messages.port2,
    memory: memory.port2,
    file,
    host,
    port,
  };
  const worker = new Worker(new URL(program), {
    workerData,
    transferList: [messages.port2, memory.port2],
    resourceLimits: { maxYoungGenerationSizeMb: youngGenerationMb },
  });
  threads.connect(index, { messages: messages.port1, memory: memory.port1 });
  return {
    index,
    worker,
    startedAt: clock.monotonic(),
    started: Promise.withResolvers(),
    exited: Promise.withResolvers(),
    state: "starting",
    generation: file.generation,
    running: new Map(),
    beats: 0,
    missed: 0,
    metrics: [],
    failing: [],
  };
}
