/** A clock that moves only when a test moves it. */
import type { Clock } from "../contract/clock.ts";

interface Timer {
  due: number;
  readonly every: number | undefined;
  readonly task: () => void;
}

export interface ManualClock extends Clock {
  /** Moves wall clock and monotonic time forward by `ms` and runs the timers that become due, in order. */
  advance(ms: number): void;
  /** Moves only the wall clock, as an operator or NTP would. `ms` may be negative. */
  jump(ms: number): void;
}

export function manualClock(start: number = Date.UTC(2026, 0, 15, 12)): ManualClock {
  let wall = start;
  let mono = 0;
  const timers = new Set<Timer>();
  const schedule = (ms: number, every: number | undefined, task: () => void): Disposable => {
    const timer: Timer = { due: mono + ms, every, task };
    timers.add(timer);
    return { [Symbol.dispose]: () => void timers.delete(timer) };
  };
  const nextDue = (end: number): Timer | undefined => {
    let first: Timer | undefined;
    for (const timer of timers) {
      if (timer.due <= end && (first === undefined || timer.due < first.due)) first = timer;
    }
    return first;
  };
  const moveTo = (time: number): void => {
    wall += time - mono;
    mono = time;
  };
  return {
    now: () => wall,
    monotonic: () => mono,
    after: (ms, task) => schedule(ms, undefined, task),
    every: (ms, task) => schedule(ms, ms, task),
    advance(ms) {
      const end = mono + ms;
      for (let timer = nextDue(end); timer !== undefined; timer = nextDue(end)) {
        moveTo(timer.due);
        if (timer.every === undefined) timers.delete(timer);
        else timer.due += timer.every;
        timer.task();
      }
      moveTo(end);
    },
    jump(ms) {
      wall += ms;
    },
  };
}
