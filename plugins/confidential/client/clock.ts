export interface ClientClock {
  /** Returns milliseconds since 1970. */
  now(): number;
  /** Returns a function that cancels the task. */
  after(ms: number, task: () => void): () => void;
}

export const wallClock: ClientClock = {
  now: () => Date.now(),
  after(ms, task) {
    const timer = setTimeout(task, ms);
    return () => clearTimeout(timer);
  },
};
