/**
 * A coarse clock for deadlines. One timer serves all connections of a client, and a deadline is a tick number, so a
 * request needs neither a timer nor a read of the clock.
 */
import type { Clock } from "../contract/clock.ts";

export interface Ticker extends Disposable {
  readonly now: number;
  /** Returns the tick at which at least `ms`, and at most two periods more, will have passed. */
  deadline(ms: number): number;
}

/** The period is an eighth of the shortest limit, within these bounds. */
const minPeriodMs = 5;
const maxPeriodMs = 250;

/** Calls `sweep` on every tick. `limitsMs`: the time limits for which deadlines will be requested. */
export function startTicker(clock: Clock, limitsMs: readonly number[], sweep: () => void): Ticker {
  const period = Math.min(maxPeriodMs, Math.max(minPeriodMs, Math.min(...limitsMs) / 8));
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
