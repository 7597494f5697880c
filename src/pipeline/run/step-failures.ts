import type { Reply } from "../../plugin.ts";
import type { HookName, PlacedStep } from "./compile.ts";
import type { LiveExchange } from "./exchange.ts";

/**
 * An asynchronous hook has not ended in time. A step that waits forever would hold its request, the client's connection,
 * the drain and a whole generation. With the limit, only its own request is not answered. The constructor logs it with
 * its step and phase.
 */
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

/**
 * `step`: undefined for the surface. Returns false for a time-out, which was counted and logged when the limit expired.
 */
export function countFailure(
  x: LiveExchange,
  step: PlacedStep | undefined,
  error: unknown,
): boolean {
  if (error instanceof StepTimeout) return false;
  x.compiled.stepStats.failed(step?.depth ?? Infinity);
  return true;
}

/** Returns true if the reply must not be sent, because its step is in shadow mode. The reply is counted and logged. */
export function isRefusalIgnored(x: LiveExchange, step: PlacedStep, reply: Reply | null): boolean {
  if (!step.shadow) return false;
  countShadowRefusal(x, step);
  const { requestId } = x.facts;
  x.runtime.log.info(
    { step: step.name, route: x.route.path, status: reply?.status, code: reply?.code, requestId },
    "shadow: would have replied",
  );
  return true;
}

/** True if the step is in shadow mode, or if `onError: skip` lets the exchange continue without it. */
export function isFailureIgnored(x: LiveExchange, step: PlacedStep, error: unknown): boolean {
  if (step.isSkippable) {
    dropStep(x, step, error);
    return true;
  }
  if (!step.shadow) return false;
  countShadowRefusal(x, step);
  countFailure(x, step, error);
  const { requestId } = x.facts;
  x.runtime.log.error(
    { err: error, step: step.name, route: x.route.path, requestId },
    "shadow: the step failed",
  );
  return true;
}

/** Skips the step for the rest of the exchange. Of its hooks, only `settled` still runs. */
function dropStep(x: LiveExchange, step: PlacedStep, error: unknown): void {
  x.compiled.stepStats.skipped(step.depth);
  (x.record.dropped ??= new Set()).add(step.depth);
  if (!countFailure(x, step, error)) return;
  const { requestId } = x.facts;
  x.runtime.log.error(
    { err: error, plugin: step.name, route: x.route.path, requestId },
    "a plugin failed and was skipped",
  );
}

function countShadowRefusal(x: LiveExchange, step: PlacedStep): void {
  step.shadowRefusals.add(1);
  x.record.addShadowRefusal(step.depth);
}
