import { runGuarded } from "../../base/guard.ts";
import { addUpFamilies, type FamilyDump, type OtherMetrics } from "../../base/metrics.ts";
import { late, withinLimit } from "../../base/time-limit.ts";
import { messageOf } from "../../base/message-of.ts";
import { fault, orderFaults, type Fault } from "../../config/fault.ts";
import { freeAddress } from "../../http/bind.ts";
import { openConnections, type Listener } from "../../http/listen.ts";
import { SharedCount, SharedCounts } from "../../memory/shared-count.ts";
import type { Generation, Provisioned } from "../../pipeline/load/generation.ts";
import { pluginModules } from "../../pipeline/load/load.ts";
import { pluginOfStack } from "../../pipeline/load/plugin-of-stack.ts";
import type { BackendStatus, Log } from "../../plugin.ts";
import { StartError } from "../../start-error.ts";
import { spawnThread, type SpawnOptions, type Thread } from "./spawn-thread.ts";
import { stackOf } from "./stack-of-thread.ts";
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
  heldByCallers,
  heldBytesCount,
  lastMetricsTopic,
  listenCall,
  metricsCall,
  prepareCall,
  retiredTopic,
  startedTopic,
  type PipelineFile,
  type Started,
} from "./thread-start.ts";

/** A thread is replaced when it has missed this many beats. */
const maxMissedBeats = 10;
/** Time limit of a start and of a reload. Both import the plugins and wait for their backends, which have limits of 30 s. */
const startLimitMs = 60_000;
/** Time until a thread that ended soon after its start, or could not start, is replaced. */
const retryMs = 1_000;
/** Time for which a scrape waits for the metrics of a thread. */
const metricsLimitMs = 1_000;
/** Time that a thread may take after its drain until it has ended. */
const endLimitMs = 8_000;

export interface PoolOptions extends SpawnOptions {
  readonly generation: Generation;
  readonly without: readonly string[];
  readonly log: Log;
}

export class ThreadPool implements Listener, OtherMetrics {
  readonly host: string;
  readonly port: number;
  readonly #options: PoolOptions;
  readonly #threads = new Map<number, Thread>();
  readonly #beats: Int32Array;
  readonly #stack = new DisposableStack();
  /** The counters of the threads that have ended. */
  #past: readonly FamilyDump[] = [];
  #prepared: readonly Thread[] = [];
  #current: Generation;
  #file: PipelineFile;
  #isClosing = false;

  /** Rejects with a ListenError or a StartError. */
  static async open(options: PoolOptions): Promise<ThreadPool> {
    const { server } = options.generation.config;
    const { host, port } = await freeAddress({ section: "server", ...server });
    const pool = new ThreadPool(options, host, port);
    try {
      await Promise.all(Array.from({ length: options.threads.count }, () => pool.#startFirst()));
    } catch (error) {
      await pool.#terminate();
      throw error;
    }
    return pool;
  }

  private constructor(options: PoolOptions, host: string, port: number) {
    const { threads, clock } = options;
    this.host = host;
    this.port = port;
    this.#options = options;
    this.#current = options.generation;
    this.#file = this.#fileOf(this.#current);
    this.#beats = new Int32Array(threads.memory(beatMemory, beatBytes(threads.slots)));
    this.#stack.use(clock.every(beatMs, () => this.#checkBeats()));
    this.#stack.use(clock.every(beatMs, () => void this.refresh()));
    this.#stack.use(threads.serve(listenCall, (_, from) => this.#mayListen(from)));
    const receive = (topic: string, run: (thread: Thread, value: unknown) => void): void => {
      this.#stack.use(
        threads.receive(topic, (value, from) => {
          const thread = this.#threads.get(from);
          if (thread !== undefined) run(thread, value);
        }),
      );
    };
    // Only src/gateway/threads/run-thread.ts sends to these topics.
    receive(startedTopic, ({ started }, value) => started.resolve(value as Started));
    receive(failingTopic, (thread) => {
      this.#markDraining(thread);
      this.#replace(thread);
    });
    receive(retiredTopic, (thread, value) => {
      thread.running.get(Number(value))?.leave();
      thread.running.delete(Number(value));
    });
    receive(lastMetricsTopic, (thread, value) => {
      thread.metrics = value as readonly FamilyDump[];
    });
  }

  get running(): number {
    const indexes = [...this.#threads.keys()];
    return indexes.reduce((sum, index) => sum + Atomics.load(this.#beats, 2 * index + 1), 0);
  }

  get described(): readonly object[] {
    return [...this.#threads.values()].map(({ index, state, generation }) => ({
      thread: index,
      state,
      generation,
    }));
  }

  get check(): true | string {
    const { count } = this.#options.threads;
    const serving = this.#serving().length;
    return serving >= count ? true : `${serving} of ${count} threads serve`;
  }

  get families(): Iterable<readonly FamilyDump[]> {
    return [this.#past, ...Array.from(this.#threads.values(), ({ metrics }) => metrics)];
  }

  /** The failing backends, as each thread sees them. */
  get failing(): readonly BackendStatus[] {
    return [...this.#threads.values()].flatMap(({ failing }) => failing);
  }

  /** Reads the metrics and the failing backends of all threads. Never rejects. */
  async refresh(): Promise<void> {
    const { threads } = this.#options;
    const running = [...this.#threads.values()].filter(
      ({ state }) => state === "serving" || state === "draining",
    );
    await Promise.allSettled(
      running.map(async (thread) => {
        const dump = await threads.call(metricsCall, undefined, thread.index, metricsLimitMs);
        // The thread answers with the result of `dump` of its metrics.
        thread.metrics = dump as readonly FamilyDump[];
        const failing = await threads.call(failingCall, undefined, thread.index, metricsLimitMs);
        // The thread answers with JSON of statuses that have been checked.
        thread.failing = JSON.parse(String(failing)) as readonly BackendStatus[];
      }),
    );
  }

  /** After a fault, no thread serves the generation. */
  async prepare({ generation, faults: own }: Provisioned): Promise<Provisioned> {
    if (generation === undefined) return { generation, faults: own };
    const { threads } = this.#options;
    const file = this.#fileOf(generation);
    this.#prepared = this.#serving();
    const prepared = this.#prepared.map(async ({ index }): Promise<readonly Fault[]> => {
      try {
        const faults = await threads.call(prepareCall, file, index, startLimitMs);
        return faults as readonly Fault[];
      } catch (error) {
        return [fault("SLUICE_START_FAILED", messageOf(error))];
      }
    });
    const faults = (await Promise.all(prepared)).flat();
    if (faults.length === 0) return { generation, faults };
    threads.send(dropTopic, undefined);
    await generation.retire();
    return { generation: undefined, faults: orderFaults(faults) };
  }

  /** The previous generation runs in the main thread until it has stopped in the others, which may ask its plugins. */
  swap(generation: Generation): void {
    const previous = this.#current;
    this.#current = generation;
    for (const { running } of this.#threads.values()) {
      previous.enter();
      running.set(previous.number, previous);
    }
    this.#file = this.#fileOf(generation);
    for (const thread of this.#prepared) thread.generation = generation.number;
    this.#options.threads.send(commitTopic, generation.number);
    // Those that began to serve in the meantime have another generation.
    for (const thread of this.#serving()) {
      if (this.#isCurrent(thread)) continue;
      this.#retire(thread);
      this.#replace(thread);
    }
  }

  beginDrain(): void {
    this.#isClosing = true;
    this.#options.threads.send(drainTopic, undefined);
  }

  async close(ms: number): Promise<void> {
    this.beginDrain();
    const { clock, log } = this.#options;
    const exits = Array.from(this.#threads.values(), ({ exited }) => exited.promise);
    for (const thread of this.#threads.values()) {
      if (thread.state === "starting") void thread.worker.terminate();
      else void thread.started.promise.then(() => this.#drain(thread, ms));
    }
    if ((await withinLimit(Promise.all(exits), ms + endLimitMs, clock)) === late) {
      log.error({ threads: [...this.#threads.keys()] }, "some threads did not end in time");
    }
    await this.#terminate();
    this.#stack.dispose();
  }

  #fileOf(generation: Generation): PipelineFile {
    const { number, config, runsOnce } = generation;
    const without = [...this.#options.without, ...runsOnce];
    return { path: config.file, text: config.text, without, generation: number };
  }

  #serving(): Thread[] {
    return [...this.#threads.values()].filter(({ state }) => state === "serving");
  }

  #isCurrent({ generation }: Thread): boolean {
    return generation === this.#file.generation;
  }

  /** A thread that a reload has not reached ends before it listens, and so does one that starts during a stop. */
  #mayListen(index: number): boolean {
    const thread = this.#threads.get(index);
    if (thread === undefined || this.#isClosing || !this.#isCurrent(thread)) return false;
    thread.state = "listening";
    return true;
  }

  /** Threads that drain are at the end of the map, in the order in which their drains began. */
  #markDraining(thread: Thread): void {
    thread.state = "draining";
    this.#threads.delete(thread.index);
    this.#threads.set(thread.index, thread);
  }

  #retire(thread: Thread): void {
    this.#markDraining(thread);
    this.#drain(thread, this.#current.config.server.drainSeconds * 1_000);
  }

  /** A thread that ends meanwhile has nothing left to close. */
  #drain({ index }: Thread, ms: number): void {
    this.#options.threads.call(closeCall, ms, index, ms + endLimitMs).catch(() => {});
  }

  async #terminate(): Promise<void> {
    this.#isClosing = true;
    await Promise.all(Array.from(this.#threads.values(), ({ worker }) => worker.terminate()));
  }

  async #startFirst(): Promise<void> {
    const faults = await this.#start();
    if (faults.length > 0) throw new StartError(faults);
  }

  async #start(): Promise<readonly Fault[]> {
    const { clock, log } = this.#options;
    let index = this.#freeIndex();
    while (index === undefined) {
      await this.#endOldestDrain();
      index = this.#freeIndex();
    }
    if (this.#isClosing) return [];
    const thread = spawnThread(index, this.#file, this, this.#options);
    const { worker } = thread;
    this.#threads.set(index, thread);
    const failed = (message: string): void =>
      thread.started.resolve({ faults: [fault("SLUICE_START_FAILED", message)] });
    worker.on("error", (error: unknown) => {
      log.error({ err: error, thread: index }, "a thread failed");
      failed(`a thread did not start: ${messageOf(error)}`);
    });
    worker.on("exit", () => {
      failed("a thread ended while it started");
      this.#ended(thread);
    });
    using _limit = clock.after(startLimitMs, () => {
      failed(`a thread did not start within ${startLimitMs / 1_000} s`);
      void worker.terminate();
    });
    const { faults } = await thread.started.promise;
    if (!this.#isCurrent(thread)) {
      if (thread.state === "listening") this.#retire(thread);
      return this.#start();
    }
    if (faults.length === 0) thread.state = "serving";
    return faults;
  }

  #freeIndex(): number | undefined {
    const { slots } = this.#options.threads;
    const all = Array.from({ length: slots - 1 }, (_, at) => at + 1);
    return all.find((index) => !this.#threads.has(index));
  }

  /** The requests that still run in one thread end, so that another one can serve new requests. */
  async #endOldestDrain(): Promise<void> {
    const oldest = [...this.#threads.values()].find(({ state }) => state === "draining");
    if (oldest === undefined) throw new Error("too many threads start at the same time");
    const { index, worker, exited } = oldest;
    this.#options.log.error({ thread: index }, "a thread is ended, because too many threads drain");
    void worker.terminate();
    await exited.promise;
  }

  #ended(thread: Thread): void {
    const { threads, log } = this.#options;
    threads.receiveLast(thread.index);
    const { index, state, running } = thread;
    this.#threads.delete(index);
    for (const generation of running.values()) generation.leave();
    Atomics.store(this.#beats, 2 * index + 1, 0);
    const counters = thread.metrics.filter(({ type }) => type !== "gauge");
    this.#past = addUpFamilies(this.#past, [counters]);
    SharedCount.open(threads, openConnections).release(index);
    SharedCount.open(threads, heldBytesCount).release(index);
    new SharedCounts(threads, heldByCallers).release(index);
    threads.disconnect(index);
    thread.exited.resolve();
    if (this.#isClosing || state !== "serving") return;
    log.error({ thread: index }, "a thread has ended: another one takes its place");
    this.#replace(thread);
  }

  #replace({ startedAt }: Pick<Thread, "startedAt">): void {
    const { clock, log } = this.#options;
    if (this.#isClosing) return;
    const retry = (): void => {
      clock.after(retryMs, start);
    };
    const failed = (reason: object): void => {
      if (this.#isClosing) return;
      log.error(reason, "a thread could not be replaced yet");
      retry();
    };
    const start = (): void => {
      if (this.#isClosing) return;
      this.#start().then(
        (faults) => {
          if (faults.length > 0) failed({ faults });
        },
        (error: unknown) => failed({ err: error }),
      );
    };
    if (clock.monotonic() - startedAt < retryMs) retry();
    else start();
  }

  #checkBeats(): void {
    for (const thread of this.#threads.values()) {
      if (thread.state === "starting" || thread.state === "listening") continue;
      const beats = Atomics.load(this.#beats, 2 * thread.index);
      thread.missed = beats === thread.beats ? thread.missed + 1 : 0;
      thread.beats = beats;
      if (thread.missed !== maxMissedBeats) continue;
      const failed = (error: unknown): void =>
        this.#options.log.error({ err: error }, "a thread could not be ended");
      void runGuarded(() => this.#endBlocked(thread), failed);
    }
  }

  /** Ends a thread whose event loop does not run, and names the plugin that runs in it. */
  async #endBlocked({ worker, index }: Thread): Promise<void> {
    const { log, clock } = this.#options;
    const stack = await stackOf(worker, clock);
    const plugin = pluginOfStack(stack, pluginModules);
    const about = { thread: index, ...(plugin !== undefined && { plugin }), stack };
    log.error(about, "a thread has not answered for 10 s: it is ended");
    await worker.terminate();
  }
}
