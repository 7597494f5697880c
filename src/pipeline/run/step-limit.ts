/**
 * The time limit of asynchronous hooks. A step that waits for ever would hold its request, the client's connection, the
 * drain and a whole generation. With the limit, only its own request is not answered.
 */
import type { Phase } from "../../plugin.ts";
import type { PlacedStep } from "../load/compile.ts";
import type { LiveExchange } from "./exchange.ts";

/** A hook has not ended in time. The constructor logs it with its step and phase. */
export class StepTimeout extends Error {
  constructor(x: LiveExchange, { name, timeoutMs }: PlacedStep, phase: Phase | "around") {
    super(`${phase} of "${name}" did not end within ${timeoutMs} ms`);
    x.compiled.stats.stepTimedOut(name, phase);
    const { requestId } = x.facts;
    x.runtime.log.error(
      { plugin: name, phase, route: x.route.path, timeoutMs, requestId },
      "a step exceeded its time limit",
    );
  }
}

/** Settles as `work` does, or rejects with `StepTimeout`. A later result of `work` is ignored. */
export function withinLimit<T>(
  x: LiveExchange,
  step: PlacedStep,
  phase: Phase,
  work: Promise<T>,
): Promise<T> {
  const { timeoutMs } = step;
  if (timeoutMs === 0) return work;
  return new Promise<T>((resolve, reject) => {
    const limit = x.runtime.clock.after(timeoutMs, () => reject(new StepTimeout(x, step, phase)));
    work.then(
      (value) => {
        limit[Symbol.dispose]();
        resolve(value);
      },
      (error: unknown) => {
        limit[Symbol.dispose]();
        reject(error);
      },
    );
  });
}
