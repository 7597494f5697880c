import type { Clock } from "../contract/clock.ts";

/** The origin of `performance.now()`, which differs between threads, in milliseconds of the clock that they share. */
const originMs = measureOrigin();

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => originMs + performance.now(),
  after(ms, task) {
    const timer = setTimeout(task, ms).unref();
    return { [Symbol.dispose]: () => clearTimeout(timer) };
  },
  every(ms, task) {
    const timer = setInterval(task, ms).unref();
    return { [Symbol.dispose]: () => clearInterval(timer) };
  },
};

/** Other programs may interrupt a reading of both clocks, so the shortest of several is the most exact. */
function measureOrigin(): number {
  let shortest = Infinity;
  let origin = 0;
  for (let reading = 0; reading < 5; reading++) {
    const before = performance.now();
    const shared = Number(process.hrtime.bigint()) / 1e6;
    const took = performance.now() - before;
    if (took >= shortest) continue;
    shortest = took;
    origin = shared - before;
  }
  return origin;
}
