/** The service `host.clock`. Implemented in src/base/clock.ts, and in src/testing/clock.ts for tests. */

/** The source of all time, so that a test can control it. */
export interface Clock {
  /** Wall clock time in integer milliseconds since 1970. It can jump. */
  now(): number;
  /** Fractional milliseconds since an arbitrary moment. They never decrease. */
  monotonic(): number;
  /** Runs `task` after `ms`. The timer does not keep the process alive. Dispose of it to cancel. */
  after(ms: number, task: () => void): Disposable;
  /** Runs `task` every `ms`. The timer does not keep the process alive. Dispose of it to cancel. */
  every(ms: number, task: () => void): Disposable;
}
