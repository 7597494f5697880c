/**
 * Ends exchanges whose surface does not return after the client got its answer or left. Otherwise what they
 * hold would remain reserved, and the generation that they run on could never be stopped.
 */
import type { LiveExchange } from "../pipeline/run/exchange.ts";
import type { ExchangeWatch } from "../pipeline/run/runtime.ts";
import type { Clock, Log } from "../plugin.ts";

/** Four times the time limit of the calls of shipped modules that run to their end after a client has left. */
const limitMs = 120_000;
const sweepMs = 10_000;

export function createSurfaceWatch(
  clock: Clock,
  log: Log,
): ExchangeWatch<LiveExchange> & Disposable {
  /** The monotonic time at which each response ended, oldest first. */
  const waiting = new Map<LiveExchange, number>();
  const sweep = (): void => {
    const due = clock.monotonic() - limitMs;
    for (const [x, since] of waiting) {
      if (since > due) return;
      log.error(
        { plugin: x.route.surface, route: x.route.path },
        "a surface did not return in time",
      );
      x.surfaceReturned();
    }
  };
  const timer = clock.every(sweepMs, sweep);
  return {
    add: (x) => void waiting.set(x, clock.monotonic()),
    remove: (x) => void waiting.delete(x),
    [Symbol.dispose]: () => timer[Symbol.dispose](),
  };
}
