/** Which worker gets a request: the less busy of two drawn at random, which is nearly as good as asking all of them. */
import type { Worker } from "./worker.ts";

/**
 * A worker that is not among `tried`, one that rests only where there is no other; undefined when all have been tried.
 * `random`: 0 to 1.
 */
export function chooseWorker(
  workers: readonly Worker[],
  tried: readonly Worker[],
  random: () => number,
): Worker | undefined {
  const fresh = tried.length === 0 ? workers : workers.filter((one) => !tried.includes(one));
  const rested = fresh.some((one) => one.isEjected) ? fresh.filter((one) => !one.isEjected) : fresh;
  const from = rested.length > 0 ? rested : fresh;
  if (from.length < 2) return from[0];
  const first = Math.floor(random() * from.length);
  // Drawn from the others, so that the two are never the same.
  const second = (first + 1 + Math.floor(random() * (from.length - 1))) % from.length;
  const one = from[first];
  const other = from[second];
  if (one === undefined || other === undefined) return one ?? other;
  return other.inFlight < one.inFlight ? other : one;
}
