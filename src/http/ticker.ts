/**
 * A coarse clock for deadlines: one timer for all connections of a client, and a deadline is a number to compare. A
 * request then costs neither a timer nor a look at the clock.
 */
import type { Clock } from "../services/clock.ts";

export interface Ticker extends Disposable {
  /** Ticks so far. */
  readonly now: number;
  /** The tick at which at least `ms` will have passed, and at most two periods more. */
  deadline(ms: number): number;
}

/** Deadlines are kept to within an eighth of the shortest limit, but no finer than this and no coarser than that. */
const finestMs = 5;
const coarsestMs = 250;

/** Runs `sweep` every tick. `limitsMs`: the limits that deadlines will be made of. */
export function startTicker(clock: Clock, limitsMs: readonly number[], sweep: () => void): Ticker {
  const period = Math.min(coarsestMs, Math.max(finestMs, Math.min(...limitsMs) / 8));
  let now = 0;
  const timer = clock.every(period, () => {
    now++;
    sweep();
  });
  return {
    get now() {
      return now;
    },
    deadline: (ms) => now + Math.ceil(ms / period) + 1,
    [Symbol.dispose]: () => timer[Symbol.dispose](),
  };
}
