/** Counts of the calls of a plugin's code, which become the metrics `sluice_plugin_*`. */

/** `throw`: an exception or a rejected promise. `contract`: a returned value that the contract does not allow. */
export type HookError = "throw" | "contract";

/** The counts of one hook of a plugin. Every method only adds to numbers. */
export interface HookCounts {
  /**
   * Calls code of the plugin, and counts how long it took and whether it threw. If it returns a promise, the call ends
   * when the promise settles. Returns the result of `run` and rethrows its errors.
   */
  call<Result>(run: () => Result): Result;
  /** Counts a call that has ended after `ms` milliseconds. */
  ended(ms: number): void;
  refused(code: string): void;
  /** Counts a failure of the plugin's code. */
  failed(error: HookError): void;
  timedOut(): void;
}
