/** Chooses one of several backends for a request. */

export interface Backend {
  /** An ejected backend is used only if there is no other. */
  readonly isEjected: boolean;
  /** Requests that it is answering. */
  readonly inFlight: number;
}

/** Draws the two backends between which the number of their requests decides. */
export interface Draw {
  /** Returns the index of the first one. */
  first(count: number): number;
  /** Returns the distance from the first to the second one: from 1 to `count - 1`. */
  distance(count: number): number;
}

/** Draws backends in turn. `start`: index of the one that is drawn first. */
export function inTurn(start = 0): Draw {
  let turn = start;
  return { first: (count) => turn++ % count, distance: () => 1 };
}

/** Draws backends at random, which is nearly as good as comparing all of them. `random`: returns a number from 0 to 1. */
export function atRandom(random: () => number = Math.random): Draw {
  return {
    first: (count) => Math.floor(random() * count),
    distance: (count) => 1 + Math.floor(random() * (count - 1)),
  };
}

const none: readonly Backend[] = [];

/**
 * Returns the less busy of two drawn backends, or the first of them if both are equally busy. `undefined` if all
 * backends are among `tried`.
 */
export function chooseBackend<T extends Backend>(
  backends: readonly T[],
  draw: Draw,
  tried: readonly Backend[] = none,
): T | undefined {
  let untried = 0;
  let sound = 0;
  for (const backend of backends) {
    if (tried.includes(backend)) continue;
    untried++;
    if (!backend.isEjected) sound++;
  }
  const count = sound > 0 ? sound : untried;
  if (count === 0) return undefined;
  const at = draw.first(count);
  const first = nthOf(backends, tried, sound > 0, at);
  if (count === 1 || first === undefined) return first;
  const second = nthOf(backends, tried, sound > 0, (at + draw.distance(count)) % count);
  return second !== undefined && second.inFlight < first.inFlight ? second : first;
}

/** Counts instead of filtering, because it runs for every call and should not allocate. */
function nthOf<T extends Backend>(
  backends: readonly T[],
  tried: readonly Backend[],
  isSound: boolean,
  n: number,
): T | undefined {
  let left = n;
  for (const backend of backends) {
    if (tried.includes(backend) || (isSound && backend.isEjected)) continue;
    if (left-- === 0) return backend;
  }
  return undefined;
}
