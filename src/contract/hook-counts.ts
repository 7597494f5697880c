/** Counts of the calls of a plugin's code, which become the metrics `sluice_plugin_*`. */

/**
 * Why a call of a plugin failed. `throw`: it threw an exception or its promise was rejected. `contract`: it returned
 * something that the contract does not allow.
 */
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
  /** Counts a call that was refused or has failed, by its code. */
  refused(code: string): void;
  /** Counts a failure of the plugin's code. */
  failed(error: HookError): void;
  /** Counts a call that exceeded its time limit. */
  timedOut(): void;
}
