/**
 * Guards callbacks of sockets, timers, threads and links. Nothing above such a callback on the stack handles an
 * exception: without a guard, one exchange's exception would end the process. Browsers run this file, too.
 */

/** Errors of `run`, thrown or of a rejected promise, go to `failed`, which should end the exchange. Never throws. */
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
