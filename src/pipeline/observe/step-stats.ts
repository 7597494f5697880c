/**
 * What each step of a route costs and refuses since the route was loaded. Refusals are all counted. Time is taken of
 * exchanges that come apart, so that each can be explained; of those that come close together one in eight, so that
 * under load the other seven read no clock.
 */
import type { Clock } from "../../plugin.ts";
import { TimeHistogram } from "./time-histogram.ts";

/** Of exchanges of a route that come close together, one in so many is timed. */
const timedEvery = 8;
/** What comes so many milliseconds after the last timed one is timed: at most 100 a second, about 1 µs each. */
const apartMs = 10;

interface StepStats {
  /** Of its hooks together, waiting included; one entry for each timed exchange that came to it. */
  readonly time: TimeHistogram;
  /** By GATEWAY code. */
  readonly refusals: ReadonlyMap<string, number>;
}

/** One entry for each step, in the order of the list, and a last one for the surface. */
export class RouteSteps {
  readonly #time: readonly TimeHistogram[];
  readonly #refusals: readonly Map<string, number>[];
  #untilTimed = 0;
  #lastTimed = -Infinity;

  constructor(steps: number) {
    this.#time = Array.from({ length: steps + 1 }, () => new TimeHistogram());
    this.#refusals = Array.from({ length: steps + 1 }, () => new Map<string, number>());
  }

  /**
   * Where the milliseconds of an exchange are added up, by depth; undefined: it is not timed. `now`: of its arrival,
   * monotonic.
   */
  begin(now: number, isAskedFor: boolean): Float64Array | undefined {
    const isApart = now - this.#lastTimed >= apartMs;
    if (this.#untilTimed-- > 0 && !isApart && !isAskedFor) return undefined;
    this.#untilTimed = timedEvery - 1;
    this.#lastTimed = now;
    return new Float64Array(this.#time.length).fill(-1);
  }

  /** A timed exchange has ended: entries below 0 were not reached. */
  ended(times: Float64Array): void {
    for (let depth = 0; depth < times.length; depth++) {
      const ms = times[depth] ?? -1;
      if (ms >= 0) this.#time[depth]?.observe(ms);
    }
  }

  /** The step at `depth` refused, or the surface, which is below all of them. */
  refused(depth: number, code: string): void {
    const counts = this.#refusals[Math.min(depth, this.#refusals.length - 1)];
    counts?.set(code, (counts.get(code) ?? 0) + 1);
  }

  at(depth: number): StepStats {
    const time = this.#time[depth];
    const refusals = this.#refusals[depth];
    if (time === undefined || refusals === undefined)
      throw new RangeError(`there is no step at position ${depth}`);
    return { time, refusals };
  }
}

/** An exchange, as far as its time is taken. */
interface Timed {
  readonly times: Float64Array | undefined;
  readonly runtime: { readonly clock: Pick<Clock, "monotonic"> };
}

/** The monotonic time where this exchange is timed, else 0. */
export function startTime(x: Timed): number {
  return x.times === undefined ? 0 : x.runtime.clock.monotonic();
}

/** Adds what was spent at `depth` since `startTime`. */
export function stopTime({ times, runtime }: Timed, depth: number, since: number): void {
  if (times === undefined) return;
  times[depth] = Math.max(times[depth] ?? 0, 0) + runtime.clock.monotonic() - since;
}
