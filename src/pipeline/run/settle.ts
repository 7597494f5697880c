/** The end of an exchange: its `settled` hooks, then its observers. */
import type { Outcome } from "../../plugin.ts";
import type { LiveExchange } from "./exchange.ts";
import { runHooks, settled } from "./hooks.ts";

/** Runs once per exchange. Never throws. */
export function settle(x: LiveExchange, outcome: Outcome): void {
  // An answer with HTTP status 200 can carry calls that were refused. Observers see their code like any other.
  x.record.code ??= x.record.calls?.code;
  void runHooks(x, settled, outcome);
  try {
    observe(x, outcome);
  } catch (error) {
    x.runtime.log.error(
      { err: error, route: x.route.path },
      "cannot record the outcome of an exchange",
    );
  }
}

function observe({ record, runtime, compiled, arrivedMonotonic }: LiveExchange, outcome: Outcome) {
  record.ms = runtime.clock.monotonic() - arrivedMonotonic;
  const { status, code, times, repliedDepth } = record;
  compiled.stats.settled(status, code, outcome, record.ms / 1000);
  if (code !== undefined) compiled.stepStats.refused(repliedDepth ?? Infinity, code);
  if (times !== undefined) compiled.stepStats.ended(times);
  runtime.activity?.settled(record);
  runtime.explanations?.settled(record);
}
