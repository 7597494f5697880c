/**
 * The time limit of asynchronous hooks. A step that waits for ever would hold its request, the client's connection, the
 * drain and a whole generation. With the limit, only its own request is not answered.
 */
import type { Phase } from "../../plugin.ts";
import type { Waiting } from "../../wait-limit.ts";
import type { PlacedStep } from "../load/compile.ts";
import type { LiveExchange } from "./exchange.ts";

/** A hook has not ended in time. The constructor logs it with its step and phase. */
export class StepTimeout extends Error {
  constructor(x: LiveExchange, { name, limit }: PlacedStep, phase: Phase | "around") {
    const timeoutMs = limit?.limitMs;
    super(`${phase} of "${name}" did not end within ${timeoutMs} ms`);
    x.compiled.stats.stepTimedOut(name, phase);
    const { requestId } = x.facts;
    x.runtime.log.error(
      { plugin: name, phase, route: x.route.path, timeoutMs, requestId },
      "a step exceeded its time limit",
    );
  }
}

/** A hook that has returned a promise. */
class WaitingHook<T> implements Waiting {
  before: Waiting | undefined = undefined;
  behind: Waiting | undefined = undefined;
  waitingSince = 0;
  readonly #x: LiveExchange;
  readonly #step: PlacedStep;
  readonly #phase: Phase;
  readonly #resolve: (value: T) => void;
  readonly #reject: (error: unknown) => void;

  constructor(
    x: LiveExchange,
    step: PlacedStep,
    phase: Phase,
    resolve: (value: T) => void,
    reject: (error: unknown) => void,
  ) {
    this.#x = x;
    this.#step = step;
    this.#phase = phase;
    this.#resolve = resolve;
    this.#reject = reject;
  }

  expired(): void {
    this.#reject(new StepTimeout(this.#x, this.#step, this.#phase));
  }

  readonly fulfilled = (value: T): void => {
    this.#step.limit?.end(this);
    this.#resolve(value);
  };

  readonly rejected = (error: unknown): void => {
    this.#step.limit?.end(this);
    this.#reject(error);
  };
}

/** Settles as `work` does, or rejects with `StepTimeout`. A later result of `work` is ignored. */
export function withinLimit<T>(
  x: LiveExchange,
  step: PlacedStep,
  phase: Phase,
  work: Promise<T>,
): Promise<T> {
  const { limit } = step;
  if (limit === undefined) return work;
  return new Promise<T>((resolve, reject) => {
    const waiting = new WaitingHook(x, step, phase, resolve, reject);
    limit.begin(waiting);
    work.then(waiting.fulfilled, waiting.rejected);
  });
}
