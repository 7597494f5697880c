import type { Clock } from "../contract/clock.ts";

/** The result of a wait whose time limit has expired. */
export const late = Symbol("late");

/** Returns the result of `work`, or `late` after `ms`. The work continues, and its later result or failure is ignored. */
export async function withinLimit<T>(
  work: Promise<T>,
  ms: number,
  clock: Pick<Clock, "after">,
): Promise<T | typeof late> {
  const { promise: expired, resolve } = Promise.withResolvers<typeof late>();
  using _limit = clock.after(ms, () => resolve(late));
  return await Promise.race([work, expired]);
}

/** Timers that keep the process alive, unlike those of `systemClock`. */
export const keepingAlive: Pick<Clock, "after"> = { after: (ms, task) => setTimeout(task, ms) };
