/**
 * An exact token bucket with continuous refill. All state is whole numbers, so nothing drifts: time in microseconds,
 * tokens in units of a billionth, of which a rate in thousandths of a request per second refills a whole number per
 * microsecond. It grants what GCRA grants (ITU-T I.371, with a tolerance of burst - 1 tokens); the level is kept
 * instead of the theoretical arrival time because a plan change can then alter the rate of a bucket that is in use.
 */

const unitsPerToken = 1e9;
/** A thousand years: longer than any real delay, and still valid as a date. */
const maxMicros = 3.2e16;
/** Keeps a level plus one refill below 2^53. */
const maxBurst = 4_000_000;

/** The terms of a bucket, created once per rate. */
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
    fillMicros: unitsPerMicro === 0 ? Infinity : Math.ceil(capUnits / unitsPerMicro),
    policy: `"${name}";q=${Math.floor(capacity)}${window}`,
    limits: [],
    name,
  };
}

/**
 * Returns the value of `RateLimit` (section 4 of the draft). `t=1` equals the Retry-After of one second that the
 * specification fixes; any other value would contradict it.
 */
export function limitField(terms: BucketTerms, remaining: number): string {
  return (terms.limits[remaining] ??= `"${terms.name}";r=${remaining};t=1`);
}

export class TokenBucket {
  #terms: BucketTerms;
  #level: number;
  #at: number;

  /** Creates a full bucket. `now`: time in whole microseconds of a monotonic clock. */
  constructor(terms: BucketTerms, now: number) {
    this.#terms = terms;
    this.#level = terms.capUnits;
    this.#at = now;
  }

  get terms(): BucketTerms {
    return this.#terms;
  }

  /** Changes the terms. The tokens in the bucket are kept up to the new burst. */
  change(terms: BucketTerms, now: number): void {
    this.#refill(now);
    this.#terms = terms;
    this.#level = Math.min(this.#level, terms.capUnits);
  }

  /** Takes a token if there is one. */
  take(now: number): boolean {
    this.#refill(now);
    if (this.#level < unitsPerToken) return false;
    this.#level -= unitsPerToken;
    return true;
  }

  /** Returns the number of whole tokens. */
  remaining(now: number): number {
    this.#refill(now);
    return Math.floor(this.#level / unitsPerToken);
  }

  /** Returns the microseconds until there is a token: 0 if there is one, `maxMicros` for a rate of 0. */
  microsToNext(now: number): number {
    this.#refill(now);
    const { unitsPerMicro } = this.#terms;
    const missing = unitsPerToken - this.#level;
    return missing <= 0 ? 0 : Math.min(Math.ceil(missing / unitsPerMicro), maxMicros);
  }

  /** Returns true if the bucket is full, so that a new one would behave in the same way. */
  isFull(now: number): boolean {
    this.#refill(now);
    return this.#level === this.#terms.capUnits;
  }

  #refill(now: number): void {
    const elapsed = now - this.#at;
    // An exchange that waited in an earlier step may have an earlier arrival time than the last one.
    if (elapsed <= 0) return;
    this.#at = now;
    const { unitsPerMicro, capUnits, fillMicros } = this.#terms;
    // Compared first, because a long idle time multiplied by the rate would exceed the safe integers.
    if (elapsed >= fillMicros) this.#level = capUnits;
    else this.#level = Math.min(capUnits, this.#level + elapsed * unitsPerMicro);
  }
}
