export interface ClientClock {
  /** Returns the time in milliseconds since 1970. */
  now(): number;
  /** Runs the task once after `ms` milliseconds. Returns a function that cancels it. */
  after(ms: number, task: () => void): () => void;
}

export const wallClock: ClientClock = {
  now: () => Date.now(),
  after(ms, task) {
    const timer = setTimeout(task, ms);
    return () => clearTimeout(timer);
  },
};
