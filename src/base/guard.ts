/** Calls of functions that may throw, or may return a promise. Browsers run this file, too. */
import type { Awaitable } from "../contract/phase.ts";

/**
 * Guards a callback of a socket, a timer, a thread or a link. Nothing above such a callback on the stack handles an
 * exception: without a guard, one exchange's exception would end the process. Errors of `run`, thrown or of a rejected
 * promise, go to `failed`, which should end the exchange. Never throws.
 */
export function runGuarded<Args extends readonly unknown[], T>(
  run: (...args: Args) => T,
  failed: (error: unknown) => void,
  ...args: Args
): T | undefined {
  try {
    const result = run(...args);
    if (result instanceof Promise) result.catch((error: unknown) => report(failed, error));
    return result;
  } catch (error) {
    report(failed, error);
    return undefined;
  }
}

export function guarded<Args extends readonly unknown[]>(
  run: (...args: Args) => void,
  failed: (error: unknown) => void,
): (...args: Args) => void {
  return (...args) => runGuarded(run, failed, ...args);
}

function report(failed: (error: unknown) => void, error: unknown): void {
  try {
    failed(error);
  } catch {
    // The first error has been reported, and nothing is left that could be ended.
  }
}

/** Uses a value that may be a promise. Code on the path of a request must not create one for a value that is known. */
export function andThen<T, Result>(
  value: Awaitable<T>,
  use: (value: T) => Awaitable<Result>,
): Awaitable<Result> {
  return value instanceof Promise ? value.then(use) : use(value);
}

/** Runs `work`, and calls `recover` if it throws or if its promise is rejected. */
export function orElse<T>(
  work: () => Awaitable<T>,
  recover: (error: unknown) => Awaitable<T>,
): Awaitable<T> {
  try {
    const value = work();
    return value instanceof Promise ? value.catch(recover) : value;
  } catch (error) {
    return recover(error);
  }
}
