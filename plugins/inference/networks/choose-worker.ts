/**
 * Chooses the worker for a request: the less busy of two random workers, which is nearly as good as comparing all of
 * them.
 */
import type { Worker } from "./worker.ts";

/**
 * Returns a worker that is not in `tried`; an ejected one only if there is no other. Undefined if all have been tried.
 * `random`: a function that returns a number from 0 to 1.
 */
export function chooseWorker(
  workers: readonly Worker[],
  tried: readonly Worker[],
  random: () => number,
): Worker | undefined {
  const untried = tried.length === 0 ? workers : workers.filter((one) => !tried.includes(one));
  const healthy = untried.some((one) => one.isEjected)
    ? untried.filter((one) => !one.isEjected)
    : untried;
  const from = healthy.length > 0 ? healthy : untried;
  if (from.length < 2) return from[0];
  const first = Math.floor(random() * from.length);
  // Drawn from the others, so the two always differ.
  const second = (first + 1 + Math.floor(random() * (from.length - 1))) % from.length;
  const one = from[first];
  const other = from[second];
  if (one === undefined || other === undefined) return one ?? other;
  return other.inFlight < one.inFlight ? other : one;
}
