/**
 * Counts how long the hooks of each step of a route take, and how often the step refuses or fails. All refusals and failures are counted. While
 * exchanges are some time apart, all of them are timed, so that each can be explained. While they follow each other
 * closely, one in eight is timed, so that the other seven do not read the clock.
 */
import type { Clock, Counter, Log } from "../../plugin.ts";
import type { StepMetrics } from "./stats.ts";

/** Bucket i contains durations below 2^i µs that the bucket before it does not contain. */
const buckets = 33;

const timedEvery = 8;
/** An exchange is timed if the last timed one is this much older: at most 100 per second, about 1 µs each. */
const apartMs = 10;

class StepStats {
  readonly name: string;
  /** Time of all its hooks, including the time they waited. One entry per timed exchange that reached the step. */
  readonly times = new TimeHistogram();
  readonly seconds: Counter;
  readonly timed: Counter;
  readonly blocks: Counter;
  /** By GATEWAY code. */
  readonly refusals = new Map<string, Counter>();

  constructor({ seconds, timed, blocks }: StepMetrics, route: string, name: string) {
    this.name = name;
    this.seconds = seconds.with({ route, step: name });
    this.timed = timed.with({ route, step: name });
    this.blocks = blocks.with({ route, step: name });
  }
}

export class RouteStepStats {
  readonly #metrics: StepMetrics;
  readonly #route: string;
  readonly #steps: readonly StepStats[];
  #untilTimed = 0;
  #lastTimed = -Infinity;

  constructor(
    { steps: metrics }: { readonly steps: StepMetrics },
    route: string,
    names: readonly string[],
  ) {
    this.#metrics = metrics;
    this.#route = route;
    this.#steps = names.map((name) => new StepStats(metrics, route, name));
  }

  /**
   * Milliseconds are added up by depth. Undefined if the exchange is not timed. `now`: monotonic time of its arrival.
   */
  begin(now: number, isAskedFor: boolean): Float64Array | undefined {
    const isApart = now - this.#lastTimed >= apartMs;
    if (this.#untilTimed-- > 0 && !isApart && !isAskedFor) return undefined;
    this.#untilTimed = timedEvery - 1;
    this.#lastTimed = now;
    return new Float64Array(this.#steps.length).fill(-1);
  }

  /** Entries below 0 were not reached. */
  ended(times: Float64Array): void {
    for (let depth = 0; depth < times.length; depth++) {
      const ms = times[depth] ?? -1;
      const step = this.#steps[depth];
      if (ms < 0 || step === undefined) continue;
      step.times.observe(ms);
      step.seconds.add(ms / 1000);
      step.timed.add(1);
    }
  }

  refused(depth: number, code: string): void {
    const { name, refusals } = this.at(depth);
    let counter = refusals.get(code);
    if (counter === undefined) {
      counter = this.#metrics.refusals.with({ route: this.#route, step: name, code });
      refusals.set(code, counter);
    }
    counter.add(1);
  }

  failed(depth: number): void {
    const step = this.at(depth).name;
    this.#metrics.errors.with({ route: this.#route, step }).add(1);
  }

  timedOut(depth: number, phase: string): void {
    const step = this.at(depth).name;
    this.#metrics.timeouts.with({ route: this.#route, step, phase }).add(1);
  }

  blocked(depth: number): string {
    const { name, blocks } = this.at(depth);
    blocks.add(1);
    return name;
  }

  /** Counts an exchange that continues without the step at `depth`, because it has failed. */
  skipped(depth: number): void {
    const step = this.at(depth).name;
    this.#metrics.skips.with({ route: this.#route, step }).add(1);
  }

  /** Returns the time series of the step at `depth`, or of the surface for any depth below all steps. */
  at(depth: number): StepStats {
    const step = this.#steps[Math.min(depth, this.#steps.length - 1)];
    if (step === undefined) throw new RangeError(`no step at depth ${depth}`);
    return step;
  }
}

interface Timed {
  readonly record: { readonly times: Float64Array | undefined };
  readonly runtime: { readonly clock: Pick<Clock, "monotonic"> };
}

/** Returns the monotonic time if the exchange is timed, else 0. */
export function startTimer({ record, runtime }: Timed): number {
  return record.times === undefined ? 0 : runtime.clock.monotonic();
}

/** Adds the time since `since` to that of the step at `depth`. Returns the start time of the next step, as `startTimer`. */
export function stopTimer({ record, runtime }: Timed, depth: number, since: number): number {
  const { times } = record;
  if (times === undefined) return 0;
  const now = runtime.clock.monotonic();
  times[depth] = Math.max(times[depth] ?? 0, 0) + now - since;
  return now;
}

/** Minimum duration of a hook that is reported. Every other request waits while it computes, even /healthz. */
const blockingMs = 1_000;

interface Watched {
  readonly route: { readonly path: string };
  readonly runtime: { readonly log: Log };
  readonly compiled: { readonly stepStats: Pick<RouteStepStats, "blocked"> };
}

/** Names a plugin that blocks the event loop. `tookMs`: time until the hook has returned, which can be a promise. */
export function warnIfBlocking(x: Watched, depth: number, tookMs: number): void {
  if (tookMs < blockingMs) return;
  const plugin = x.compiled.stepStats.blocked(depth);
  const about = { plugin, route: x.route.path, ms: Math.round(tookMs) };
  x.runtime.log.warn(about, "a hook of a plugin blocked all requests");
}

/** Durations in 33 buckets. Each is twice as wide as the one before, from 1 µs to about 36 minutes and more. */
export class TimeHistogram {
  readonly #counts = new Float64Array(buckets);
  #count = 0;

  observe(ms: number): void {
    // clz32 takes 32 bits. Longer durations belong to the last bucket.
    const us = ms * 1000;
    const bucket = us < 0x7fff_ffff ? 32 - Math.clz32(us) : buckets - 1;
    this.#counts[bucket] = (this.#counts[bucket] ?? 0) + 1;
    this.#count++;
  }

  /** Milliseconds within which a share `q` (0 to 1) of all durations lie, interpolated in the bucket. */
  quantile(q: number): number | undefined {
    if (this.#count === 0) return undefined;
    const rank = q * this.#count;
    let below = 0;
    for (let bucket = 0; bucket < buckets; bucket++) {
      const inBucket = this.#counts[bucket] ?? 0;
      if (inBucket > 0 && below + inBucket >= rank) {
        const low = bucket === 0 ? 0 : 2 ** (bucket - 1);
        const high = 2 ** bucket;
        return (low + ((high - low) * (rank - below)) / inBucket) / 1000;
      }
      below += inBucket;
    }
    return 2 ** (buckets - 1) / 1000;
  }
}
