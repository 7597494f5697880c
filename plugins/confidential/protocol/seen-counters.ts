/**
 * Which reports of a keyset have come: each counter once, in any order, since parallel sessions finish as they like. In
 * memory, for as long as the keyset holds.
 */

export interface SeenCounters {
  /** Whether it is new; from then on it is not. `notAfter`: of the keyset, seconds since 1970. */
  claim(keysetDigest: string, ctr: number, notAfter: number): boolean;
  /**
   * Counters between the first and the last seen of each keyset that have not come: reports that somebody keeps back,
   * or that another gateway of the same enclaves has seen.
   */
  missing(): number;
  /** Drops the keysets that have expired. `now`: seconds since 1970. */
  forget(now: number): void;
}

interface Seen {
  readonly counters: Set<number>;
  readonly notAfter: number;
  lowest: number;
  highest: number;
}

export function createSeenCounters(): SeenCounters {
  const keysets = new Map<string, Seen>();
  return {
    claim(keysetDigest, ctr, notAfter) {
      let seen = keysets.get(keysetDigest);
      if (seen === undefined) {
        seen = { counters: new Set(), notAfter, lowest: ctr, highest: ctr };
        keysets.set(keysetDigest, seen);
      }
      if (seen.counters.has(ctr)) return false;
      seen.counters.add(ctr);
      seen.lowest = Math.min(seen.lowest, ctr);
      seen.highest = Math.max(seen.highest, ctr);
      return true;
    },
    missing() {
      let missing = 0;
      for (const seen of keysets.values()) {
        missing += seen.highest - seen.lowest + 1 - seen.counters.size;
      }
      return missing;
    },
    forget(now) {
      for (const [keysetDigest, { notAfter }] of keysets) {
        if (notAfter <= now) keysets.delete(keysetDigest);
      }
    },
  };
}
