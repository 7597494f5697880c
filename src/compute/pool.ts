/**
 * A thread pool for work that would block the event loop. A job is a function that a module exports as default. Its
 * result is bytes, which are copied. No thread exists before the first job, and idle threads end.
 *
 * A failure affects only its own job: a job that exceeds its time is ended with its thread, a job whose thread dies
 * fails alone, and a job that does not fit into the queue is refused at once.
 */
import { availableParallelism } from "node:os";
import { Piscina } from "piscina";
import type { Clock } from "../contract/clock.ts";
import type { ComputeJob, ComputeOutcome, ComputeThreads } from "../contract/compute.ts";
import type { Log } from "../contract/log.ts";
import type { Counter, Metrics } from "../contract/metrics.ts";
import { threadModule } from "../base/package-files.ts";
import type { ThreadJob } from "./run-job.ts";

export interface ComputePool extends ComputeThreads {
  /** Waiting and running jobs fail as `aborted`. */
  close(): Promise<void>;
}

export interface ComputeOptions {
  readonly clock: Clock;
  readonly log: Pick<Log, "error">;
  readonly metrics: Metrics;
  /** Number of threads. Default: all cores except the one of the event loop, at most 4. */
  readonly threads?: number;
  readonly queue?: number;
  /** Time limit of a job in milliseconds, including the time in the queue. */
  readonly timeoutMs?: number;
}

const maxThreads = 4;
const defaultQueue = 64;
const defaultTimeoutMs = 20_000;
const idleMs = 60_000;
const runnerModule = threadModule("src/compute/run-job");
/** The largest job, of 15 MiB of JSON, needs about a tenth of this. */
const threadHeapMb = 512;

export function openComputePool(options: ComputeOptions): ComputePool {
  const { clock, log, metrics, queue = defaultQueue, timeoutMs = defaultTimeoutMs } = options;
  const threads = options.threads ?? Math.min(maxThreads, Math.max(1, availableParallelism() - 1));
  const family = metrics.counter(
    "sluice_compute_jobs_total",
    "Jobs of the thread pool, by result.",
    ["result"],
  );
  const counters = new Map<string, Counter>();
  const count = (result: string): void => {
    const counter = counters.get(result) ?? family.with({ result });
    counters.set(result, counter);
    counter.add(1);
  };
  let piscina: Piscina | undefined;
  let jobs = 0;
  let closed = false;

  const refused = (reason: "busy" | "timeout" | "crashed" | "aborted"): ComputeOutcome => {
    count(reason);
    return { ok: false, reason };
  };
  const attempt = async (pool: Piscina, job: ComputeJob): Promise<ComputeOutcome> => {
    const { module, input } = job;
    const stop = new AbortController();
    let reason: "busy" | "timeout" | "crashed" | "aborted" = "crashed";
    const end = (why: "busy" | "timeout" | "crashed" | "aborted"): void => {
      reason = why;
      stop.abort();
    };
    using _timer = clock.after(timeoutMs, () => end("timeout"));
    const leave = (): void => end("aborted");
    job.signal?.addEventListener("abort", leave, { once: true });
    try {
      const bytes: unknown = await pool.run({ module, input } satisfies ThreadJob, {
        filename: runnerModule,
        // postMessage accepts an array; piscina's type is inferred from the other overload of postMessage.
        transferList: [...job.transfer] as never,
        signal: stop.signal,
      });
      if (bytes !== undefined && !(bytes instanceof Uint8Array)) {
        throw new TypeError("the job returned neither bytes nor undefined");
      }
      count("done");
      return { ok: true, bytes };
    } catch (error) {
      if (closed) return refused("aborted");
      if (reason === "crashed") log.error({ err: error, module }, "a job of the threads failed");
      return refused(reason);
    } finally {
      job.signal?.removeEventListener("abort", leave);
    }
  };

  return {
    async run(job) {
      if (closed || job.signal?.aborted === true) return refused("aborted");
      if (jobs >= threads + queue) return refused("busy");
      piscina ??= new Piscina({
        minThreads: 0,
        maxThreads: threads,
        idleTimeout: idleMs,
        resourceLimits: { maxOldGenerationSizeMb: threadHeapMb },
      });
      jobs++;
      try {
        return await attempt(piscina, job);
      } finally {
        jobs--;
      }
    },
    async close() {
      closed = true;
      await piscina?.destroy();
    },
  };
}
