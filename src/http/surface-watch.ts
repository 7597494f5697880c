/**
 * Ends exchanges whose surface does not return after the client got its answer or left, and those whose surface has
 * returned without ending its stream. Otherwise what they hold would remain reserved, and the generation that they run
 * on could never be stopped.
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
  /** The monotonic time at which each response ended or its surface returned, oldest first. */
  const waiting = new Map<LiveExchange, number>();
  const sweep = (): void => {
    const due = clock.monotonic() - limitMs;
    for (const [x, since] of waiting) {
      if (since > due) return;
      waiting.delete(x);
      if (x.hasSettled) continue;
      const fields = { plugin: x.route.surface, route: x.route.path };
      if (x.isSurfaceRunning) {
        log.error(fields, "a surface did not return in time");
        x.surfaceReturned();
      } else {
        log.error(fields, "a surface returned without ending its stream, which was cut");
        x.cutOff("upstreamFailed");
      }
    }
  };
  const timer = clock.every(sweepMs, sweep);
  return {
    add: (x) => void waiting.set(x, clock.monotonic()),
    remove: (x) => void waiting.delete(x),
    [Symbol.dispose]: () => timer[Symbol.dispose](),
  };
}
