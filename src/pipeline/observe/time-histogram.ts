/** Durations in 33 buckets. Each is twice as wide as the one before, from 1 µs to about 36 minutes and more. */

/** Bucket i contains durations below 2^i µs that the bucket before it does not contain. */
const buckets = 33;

export class TimeHistogram {
  readonly #counts = new Float64Array(buckets);
  count = 0;
  /** Milliseconds. */
  sumMs = 0;

  observe(ms: number): void {
    // clz32 takes 32 bits. Longer durations belong to the last bucket.
    const us = ms * 1000;
    const bucket = us < 0x7fff_ffff ? 32 - Math.clz32(us) : buckets - 1;
    this.#counts[bucket] = (this.#counts[bucket] ?? 0) + 1;
    this.count++;
    this.sumMs += ms;
  }

  /**
   * Returns the milliseconds within which a share `q` (0 to 1) of all durations lie, interpolated in the bucket.
   * Undefined without durations.
   */
  quantile(q: number): number | undefined {
    if (this.count === 0) return undefined;
    const rank = q * this.count;
    let below = 0;
    for (let bucket = 0; bucket < buckets; bucket++) {
      const inBucket = this.#counts[bucket] ?? 0;
      if (inBucket > 0 && below + inBucket >= rank) {
        const low = bucket === 0 ? 0 : 2 ** (bucket - 1);
        const high = 2 ** bucket;
        return (low + ((high - low) * (rank - below)) / inBucket) / 1000;
      }
      below += inBucket;
    }
    return 2 ** (buckets - 1) / 1000;
  }
}
