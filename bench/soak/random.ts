export interface Random {
  /** Returns an integer from 0 to `below` - 1. */
  int(below: number): number;
  /** Returns a number from 0 to below 1. */
  share(): number;
  pick<T>(values: readonly T[]): T;
}

/** Marsaglia's xorshift32, so that two runs make the same choices. `seed`: an integer; 0 counts as 1. */
export function createRandom(seed: number): Random {
  let state = seed | 0 || 1;
  const int = (below: number): number => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) % below;
  };
  return {
    int,
    share: () => int(2 ** 32) / 2 ** 32,
    pick(values) {
      const value = values[int(values.length)];
      if (value === undefined) throw new Error("nothing to pick from");
      return value;
    },
  };
}

export function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
