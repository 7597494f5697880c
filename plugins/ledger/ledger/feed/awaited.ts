/** Returns the lowest of the block numbers that clients wait for. Undefined if there is none. */
export function lowest(awaited: Iterable<number | undefined>): number | undefined {
  let found: number | undefined;
  for (const number of awaited) {
    if (number !== undefined) found = Math.min(found ?? number, number);
  }
  return found;
}
