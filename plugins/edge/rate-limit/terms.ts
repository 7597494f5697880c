/**
 * The terms of token buckets. All amounts are whole numbers, so nothing drifts: time in microseconds, tokens in units of
 * 1e-9, so that every rate in thousandths of a request per second refills whole units per microsecond.
 */

export const unitsPerToken = 1e9;
/** A thousand years in microseconds: longer than any real delay, and still valid as a date. */
export const maxMicros = 3.2e16;
/** Keeps a level plus one refill below 2^53. */
const maxBurst = 4_000_000;

export interface BucketTerms {
  readonly unitsPerMicro: number;
  readonly capUnits: number;
  /** Whole tokens of a full bucket. */
  readonly burst: number;
  /** Microseconds from empty to full. */
  readonly fillMicros: number;
  /** Value of `RateLimit-Policy` (draft-ietf-httpapi-ratelimit-headers-11 section 3). */
  readonly policy: string;
  /** Values of `RateLimit` by the number of remaining tokens, created when they are first needed. */
  readonly limits: (string | undefined)[];
  readonly name: string;
}

/** `rps`: requests per second, rounded to a thousandth. `burst`: number of tokens, at least one. */
export function createTerms(name: string, rps: number, burst: number): BucketTerms {
  const unitsPerMicro = Math.round(rps * 1000);
  const capacity = Math.min(Math.max(burst, 1), maxBurst);
  const capUnits = Math.round(capacity * unitsPerToken);
  const seconds = Math.max(1, Math.ceil(capacity / rps));
  // A rate of 0 has no window, and integers of Structured Fields have at most 15 digits.
  const window = seconds < 1e15 ? `;w=${seconds}` : "";
  return {
    unitsPerMicro,
    capUnits,
    burst: Math.floor(capacity),
    fillMicros: fillTime(capUnits, unitsPerMicro),
    policy: `"${name}";q=${Math.floor(capacity)}${window}`,
    limits: [],
    name,
  };
}

/**
 * Source: section 4 of the draft. `t=1` equals the Retry-After of one second that the specification fixes; any other
 * value would contradict it.
 */
export function limitField(terms: BucketTerms, remaining: number): string {
  return (terms.limits[remaining] ??= `"${terms.name}";r=${remaining};t=1`);
}

/** Each share has at least one token. The header fields do not change. */
export function shareOf(terms: BucketTerms, replicas: number): BucketTerms {
  if (replicas === 1) return terms;
  // Rounded up, so that a small rate does not become 0.
  const unitsPerMicro = Math.ceil(terms.unitsPerMicro / replicas);
  const capUnits = Math.max(unitsPerToken, Math.floor(terms.capUnits / replicas));
  return {
    ...terms,
    unitsPerMicro,
    capUnits,
    fillMicros: fillTime(capUnits, unitsPerMicro),
  };
}

function fillTime(capUnits: number, unitsPerMicro: number): number {
  return unitsPerMicro === 0 ? Infinity : Math.ceil(capUnits / unitsPerMicro);
}
