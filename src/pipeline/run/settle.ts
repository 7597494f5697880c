/** The end of an exchange: its `settled` hooks, then its observers. */
import type { Outcome } from "../../plugin.ts";
import type { LiveExchange } from "./exchange.ts";
import { runHooks, settled } from "./hooks.ts";

/** Runs once per exchange. Never throws. */
export function settle(x: LiveExchange, outcome: Outcome): void {
  const { record, runtime, compiled } = x;
  // An answer with HTTP status 200 can carry calls that were refused. Observers see their code like any other.
  record.code ??= record.calls?.code;
  void runHooks(x, settled, outcome);
  record.ms = runtime.clock.monotonic() - x.arrivedMonotonic;
  const { status, code, times, repliedDepth } = record;
  compiled.stats.settled(status, code, outcome, record.ms / 1000);
  if (code !== undefined) compiled.stepStats.refused(repliedDepth ?? Infinity, code);
  if (times !== undefined) compiled.stepStats.ended(times);
  for (const observer of runtime.observers) {
    try {
      observer(record);
    } catch (error) {
      const message = "an observer of exchanges failed";
      runtime.log.error({ err: error, route: x.route.path }, message);
    }
  }
}
