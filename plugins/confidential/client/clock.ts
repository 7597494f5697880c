/** The clock of a client: the wall's, and timers that every platform has. */

export interface ClientClock {
  /** Milliseconds since 1970. */
  now(): number;
  /** Runs the task once, unless what it returns was called before. */
  after(ms: number, task: () => void): () => void;
}

export const wallClock: ClientClock = {
  now: () => Date.now(),
  after(ms, task) {
    const timer = setTimeout(task, ms);
    return () => clearTimeout(timer);
  },
};
