import type { Clock } from "../contract/clock.ts";

/**
 * Returns the result of `work`, or undefined if it takes longer than `ms`. The work itself continues, and its later
 * result or failure is ignored.
 */
export async function withinLimit<T>(
  work: Promise<T>,
  ms: number,
  clock: Pick<Clock, "after">,
): Promise<T | undefined> {
  const { promise: late, resolve } = Promise.withResolvers<undefined>();
  using _limit = clock.after(ms, () => resolve(undefined));
  return await Promise.race([work, late]);
}

/** Timers that keep the process alive, other than those of the system's clock. */
export const keepingAlive: Pick<Clock, "after"> = { after: (ms, task) => setTimeout(task, ms) };
