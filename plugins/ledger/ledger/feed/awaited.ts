/** Something with clients that wait until the node has finalized a block with a certain number. */
export interface Awaiting {
  /** The lowest of these numbers. Undefined if no client waits. */
  readonly awaited: number | undefined;
}

/** Returns the lowest number. Undefined if no client waits. */
export function lowestAwaited(all: Iterable<Awaiting>): number | undefined {
  let lowest: number | undefined;
  for (const { awaited } of all) {
    if (awaited !== undefined) lowest = Math.min(lowest ?? awaited, awaited);
  }
  return lowest;
}
