/** The service `host.clock`: implemented in src/clock.ts, and for tests in src/testing/clock.ts. */

/** All time comes from here, so that a test can hold it still. */
export interface Clock {
  /** Wall clock, integer milliseconds since 1970. May jump. */
  now(): number;
  /** Milliseconds that never go back; origin arbitrary, fractional. */
  monotonic(): number;
  /** Runs `task` after `ms`. Does not keep the process alive. Dispose to cancel. */
  after(ms: number, task: () => void): Disposable;
  /** Runs `task` every `ms`. Does not keep the process alive. */
  every(ms: number, task: () => void): Disposable;
}
