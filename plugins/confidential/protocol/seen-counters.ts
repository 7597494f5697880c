/**
 * The counters of received reports, in memory while their keyset is valid. Each counter is accepted once, in any order,
 * because parallel sessions can end in any order.
 */

export interface SeenCounters {
  /** Returns true if the counter is new. `notAfter`: seconds since 1970. */
  claim(keysetDigest: string, ctr: number, notAfter: number): boolean;
  /**
   * Number of counters between the lowest and the highest one of each keyset that are missing. Their reports were
   * withheld, or another gateway that uses the same enclaves has received them.
   */
  missing(): number;
  /** Removes expired keysets. `now`: seconds since 1970. */
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
