/**
 * The time limit of asynchronous hooks. A step that waits for ever would hold its request, the client's connection, the
 * drain and a whole generation; with the limit it costs one request its answer.
 */
import type { Phase } from "../../plugin.ts";
import type { PlacedStep } from "../load/compile.ts";
import type { LiveExchange } from "./exchange.ts";

/** Asynchronous hooks. */
export type WaitingPhase = Extract<
  Phase,
  "requestHeaders" | "requestBody" | "responseHeaders" | "responseEnd"
>;

/** A hook has not ended in time. It is logged where it is found, with its step and phase. */
export class StepTimeout extends Error {
  constructor(x: LiveExchange, { name, timeoutMs }: PlacedStep, phase: WaitingPhase | "around") {
    super(`${phase} of "${name}" did not end within ${timeoutMs} ms`);
    const { route } = x;
    x.compiled.stats.stepTimedOut(name, phase);
    x.runtime.log.error(
      { plugin: name, phase, route: route.path, timeoutMs, requestId: x.peek("requestId") },
      "a step exceeded its time limit",
    );
  }
}

/** Settles as `work` does, or rejects with `StepTimeout`. What `work` brings after that is ignored. */
export function inTime<T>(
  x: LiveExchange,
  step: PlacedStep,
  phase: WaitingPhase,
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
