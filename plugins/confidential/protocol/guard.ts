/**
 * Guards callbacks of sockets, timers and links. Nothing catches an exception of such a callback, so without a guard
 * the exception of one session would end the process.
 */

/**
 * Wraps `run` so that its exceptions are passed to `onError`, which should end the session. The result never throws.
 */
export function guarded<Args extends readonly unknown[]>(
  run: (...args: Args) => void,
  onError: (error: unknown) => void,
): (...args: Args) => void {
  return (...args) => {
    try {
      run(...args);
    } catch (error) {
      contain(() => onError(error));
    }
  };
}

/** Ignores exceptions of the code that ends a session, because nothing else is left to end. */
function contain(run: () => void): void {
  try {
    run();
  } catch {
    // The first exception has been reported.
  }
}
