/**
 * How long the hooks of each step of a route take, and how often the step refuses, since the route was loaded. All
 * refusals are counted. Exchanges that are some time apart are all timed, so that each can be explained. Of exchanges
 * that follow closely one in eight is timed, so that under load the other seven read no clock.
 */
import type { Clock } from "../../plugin.ts";
import { TimeHistogram } from "./time-histogram.ts";

/** One in this many exchanges of a route is timed if they follow closely. */
const timedEvery = 8;
/**
 * An exchange is timed if the last timed one is this many milliseconds older: at most 100 per second, about 1 µs each.
 */
const apartMs = 10;

interface StepStats {
  /** Time of all its hooks, including the time they waited. One entry per timed exchange that reached the step. */
  readonly time: TimeHistogram;
  /** Refusals by GATEWAY code. */
  readonly refusals: ReadonlyMap<string, number>;
}

/** Statistics of each step, in the order of the list, and of the surface at the end. */
export class RouteStepStats {
  readonly #time: readonly TimeHistogram[];
  readonly #refusals: readonly Map<string, number>[];
  #untilTimed = 0;
  #lastTimed = -Infinity;

  constructor(steps: number) {
    this.#time = Array.from({ length: steps + 1 }, () => new TimeHistogram());
    this.#refusals = Array.from({ length: steps + 1 }, () => new Map<string, number>());
  }

  /**
   * Returns the array in which the milliseconds of an exchange are added up, by depth. Undefined if the exchange is not
   * timed. `now`: monotonic time of its arrival.
   */
  begin(now: number, isAskedFor: boolean): Float64Array | undefined {
    const isApart = now - this.#lastTimed >= apartMs;
    if (this.#untilTimed-- > 0 && !isApart && !isAskedFor) return undefined;
    this.#untilTimed = timedEvery - 1;
    this.#lastTimed = now;
    return new Float64Array(this.#time.length).fill(-1);
  }

  /** Counts a timed exchange that has ended. Entries below 0 were not reached. */
  ended(times: Float64Array): void {
    for (let depth = 0; depth < times.length; depth++) {
      const ms = times[depth] ?? -1;
      if (ms >= 0) this.#time[depth]?.observe(ms);
    }
  }

  /** Counts a refusal of the step at `depth`, or of the surface for any depth below all steps. */
  refused(depth: number, code: string): void {
    const counts = this.#refusals[Math.min(depth, this.#refusals.length - 1)];
    counts?.set(code, (counts.get(code) ?? 0) + 1);
  }

  at(depth: number): StepStats {
    const time = this.#time[depth];
    const refusals = this.#refusals[depth];
    if (time === undefined || refusals === undefined)
      throw new RangeError(`no step at depth ${depth}`);
    return { time, refusals };
  }
}

/** The parts of an exchange that are needed to time it. */
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
