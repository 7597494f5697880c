/**
 * Threads for work that would hold up the event loop. A job is bytes in by transfer and bytes out by transfer, done by
 * a function that a module exports as default; object graphs never cross. No thread exists until the first job, and
 * idle ones end.
 *
 * What goes wrong stays with its job: one that runs out of time ends with its thread, one whose thread dies fails
 * alone, and what does not fit the queue is refused at once.
 */
import { availableParallelism } from "node:os";
import { move, Piscina } from "piscina";
import type { Clock } from "../services/clock.ts";
import type { ComputeJob, ComputeOutcome, ComputeThreads } from "../services/compute.ts";
import type { Counter, Metrics } from "../services/metrics.ts";

export interface ComputePool extends ComputeThreads {
  /** Ends every thread; jobs that wait or run fail as `aborted`. */
  close(): Promise<void>;
}

export interface ComputeOptions {
  readonly clock: Clock;
  readonly metrics: Metrics;
  /** Default: all cores but the one of the event loop, at most 4. */
  readonly threads?: number;
  /** Jobs that may wait for a thread. */
  readonly queue?: number;
  /** From the call on, waiting included. */
  readonly timeoutMs?: number;
}

const maxThreads = 4;
const defaultQueue = 64;
const defaultTimeoutMs = 20_000;
/** A thread that has had nothing to do for so long ends. */
const idleMs = 60_000;
/** A block of the node's largest answer (15 MiB) takes about a tenth of it. */
const threadHeapMb = 512;

/** Starts nothing yet. */
export function openComputePool(options: ComputeOptions): ComputePool {
  const { clock, metrics, queue = defaultQueue, timeoutMs = defaultTimeoutMs } = options;
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
      const bytes: unknown = await pool.run(job.input, {
        filename: job.module,
        // An array, as postMessage takes it; piscina's type is inferred from the other overload of postMessage.
        transferList: [...job.transfer] as never,
        signal: stop.signal,
      });
      count("done");
      return { ok: true, bytes: bytes instanceof Uint8Array ? bytes : undefined };
    } catch {
      return refused(closed ? "aborted" : reason);
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

/** What a job's function returns: its bytes, moved out of the thread, or undefined. */
export function movedOut(bytes: Uint8Array<ArrayBuffer> | undefined): unknown {
  return bytes === undefined ? undefined : move(bytes);
}
