/**
 * The time limit of asynchronous hooks. A step that waits forever would hold its request, the client's connection, the
 * drain and a whole generation. With the limit, only its own request is not answered.
 */
import type { HookName, PlacedStep } from "./compile.ts";
import type { LiveExchange } from "./exchange.ts";

/** A hook has not ended in time. The constructor logs it with its step and phase. */
export class StepTimeout extends Error {
  constructor(
    x: LiveExchange,
    { name, depth, limit, isSkippable }: PlacedStep,
    phase: HookName | "around",
  ) {
    const timeoutMs = limit?.limitMs;
    super(`${phase} of "${name}" did not end within ${timeoutMs} ms`);
    x.compiled.stepStats.timedOut(depth, phase);
    const { requestId } = x.facts;
    x.runtime.log.error(
      { plugin: name, phase, route: x.route.path, timeoutMs, requestId },
      `a step exceeded its time limit${isSkippable ? " and was skipped" : ""}`,
    );
  }
}
