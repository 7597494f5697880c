/**
 * Guards callbacks of sockets, timers and links. Nobody catches what such a callback throws: without a guard one session's
 * exception would end the process.
 */

/** Returns `run` so that an exception goes to `broken`, which should end the session. The result never throws. */
export function guarded<Args extends readonly unknown[]>(
  run: (...args: Args) => void,
  broken: (error: unknown) => void,
): (...args: Args) => void {
  return (...args) => {
    try {
      run(...args);
    } catch (error) {
      contain(() => broken(error));
    }
  };
}

/** For the end of a session itself, after which there is nothing left that could be ended. */
function contain(run: () => void): void {
  try {
    run();
  } catch {
    // The exception that came first has been reported.
  }
}
