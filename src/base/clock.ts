/** The clock of the system. */
import type { Clock } from "../contract/clock.ts";

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  after(ms, task) {
    const timer = setTimeout(task, ms).unref();
    return { [Symbol.dispose]: () => clearTimeout(timer) };
  },
  every(ms, task) {
    const timer = setInterval(task, ms).unref();
    return { [Symbol.dispose]: () => clearInterval(timer) };
  },
};
