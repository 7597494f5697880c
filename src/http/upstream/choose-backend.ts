export interface Backend {
  /** An ejected backend is used only if there is no other. */
  readonly isEjected: boolean;
  readonly inFlight: number;
}

/** Draws the two backends between which the number of their requests decides. */
export interface CandidateSampler {
  firstIndex(count: number): number;
  /** Returns the distance from the first to the second one: from 1 to `count - 1`. */
  secondOffset(count: number): number;
}

export function roundRobin(start = 0): CandidateSampler {
  let turn = start;
  return { firstIndex: (count) => turn++ % count, secondOffset: () => 1 };
}

/** Draws backends at random, which is nearly as good as comparing all of them. `random`: returns a number from 0 to 1. */
export function randomSampler(random: () => number = Math.random): CandidateSampler {
  return {
    firstIndex: (count) => Math.floor(random() * count),
    secondOffset: (count) => 1 + Math.floor(random() * (count - 1)),
  };
}

const none: readonly Backend[] = [];

/** Returns the less busy of two drawn backends, or the first. `undefined` if all backends are among `tried`. */
export function chooseBackend<T extends Backend>(
  backends: readonly T[],
  sampler: CandidateSampler,
  tried: readonly Backend[] = none,
): T | undefined {
  let untried = 0;
  let notEjected = 0;
  for (const backend of backends) {
    if (tried.includes(backend)) continue;
    untried++;
    if (!backend.isEjected) notEjected++;
  }
  const count = notEjected > 0 ? notEjected : untried;
  if (count === 0) return undefined;
  const at = sampler.firstIndex(count);
  const first = nthOf(backends, tried, notEjected > 0, at);
  if (count === 1 || first === undefined) return first;
  const second = nthOf(backends, tried, notEjected > 0, (at + sampler.secondOffset(count)) % count);
  return second !== undefined && second.inFlight < first.inFlight ? second : first;
}

/** Counts instead of filtering, because it runs for every call and should not allocate. */
function nthOf<T extends Backend>(
  backends: readonly T[],
  tried: readonly Backend[],
  skipsEjected: boolean,
  n: number,
): T | undefined {
  let left = n;
  for (const backend of backends) {
    if (tried.includes(backend) || (skipsEjected && backend.isEjected)) continue;
    if (left-- === 0) return backend;
  }
  return undefined;
}
