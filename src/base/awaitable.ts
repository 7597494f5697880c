/** Values that may be promises. Code on the path of a request must not create a promise for a value that is known. */
import type { Awaitable } from "../contract/phase.ts";

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
