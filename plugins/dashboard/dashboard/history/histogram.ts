/**
 * Histograms of durations whose counts can be added up, over time and over gateways. Each bucket is 2^(1/4) times as
 * wide as the previous one, so a percentile is wrong by less than 20 %, and usually by less than 10 %.
 */

/** Upper bound of the first bucket in milliseconds. */
const firstMs = 0.1;
const perDoubling = 4;
/** The last bucket begins at about 80 minutes and has no upper bound. */
const buckets = 104;

/** Counts by the number of the bucket. Empty buckets are omitted. */
export type Counts = Record<number, number>;

export function addDuration(counts: Counts, ms: number): void {
  const place = ms <= firstMs ? 0 : Math.ceil(perDoubling * Math.log2(ms / firstMs));
  const bucket = Math.min(place, buckets - 1);
  counts[bucket] = (counts[bucket] ?? 0) + 1;
}

export function addCounts(to: Counts, from: Counts): void {
  for (const [bucket, count] of Object.entries(from)) {
    to[Number(bucket)] = (to[Number(bucket)] ?? 0) + count;
  }
}

/** Returns milliseconds, interpolated in a bucket. Undefined without durations. `q`: share of the durations, 0 to 1. */
export function percentile(counts: Counts, q: number): number | undefined {
  let all = 0;
  for (let bucket = 0; bucket < buckets; bucket++) all += counts[bucket] ?? 0;
  if (all === 0) return undefined;
  const rank = q * all;
  let below = 0;
  for (let bucket = 0; bucket < buckets; bucket++) {
    const inside = counts[bucket] ?? 0;
    if (inside > 0 && below + inside >= rank) {
      const low = bucket === 0 ? 0 : boundMs(bucket - 1);
      return low + ((boundMs(bucket) - low) * (rank - below)) / inside;
    }
    below += inside;
  }
  return boundMs(buckets - 1);
}

function boundMs(bucket: number): number {
  return firstMs * 2 ** (bucket / perDoubling);
}
