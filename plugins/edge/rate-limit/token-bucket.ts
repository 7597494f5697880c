/**
 * An exact token bucket with continuous refill. All state is whole numbers, so nothing drifts: time in microseconds,
 * tokens in units of a billionth, of which a rate in thousandths of a request per second refills a whole number per
 * microsecond. It grants what GCRA grants (ITU-T I.371, with a tolerance of burst - 1 tokens); the level is kept
 * instead of the theoretical arrival time because a plan change can then alter the rate of a bucket that is in use.
 */

const unitsPerToken = 1e9;
/** A thousand years: later than anybody asks, and still a date. */
const longestMicros = 3.2e16;
/** Keeps a level plus one refill below 2^53. */
const maxBurst = 4_000_000;

/** The terms of a bucket, made once per rate. */
export interface Terms {
  readonly unitsPerMicro: number;
  readonly capUnits: number;
  /** Whole tokens of a full bucket. */
  readonly burst: number;
  /** Microseconds from empty to full. */
  readonly fillMicros: number;
  /** Value of `RateLimit-Policy` (draft-ietf-httpapi-ratelimit-headers-11 section 3). */
  readonly policy: string;
  /** Values of `RateLimit` by the whole tokens that remain, made when first needed. */
  readonly limits: (string | undefined)[];
  readonly name: string;
}

/** `rps` requests per second, to a thousandth; `burst` tokens, at least one, since less would never grant anything. */
export function createTerms(name: string, rps: number, burst: number): Terms {
  const unitsPerMicro = Math.round(rps * 1000);
  const capacity = Math.min(Math.max(burst, 1), maxBurst);
  const capUnits = Math.round(capacity * unitsPerToken);
  const seconds = Math.max(1, Math.ceil(capacity / rps));
  // A rate of nothing has no window; Structured Field integers end at 15 digits.
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
 * Value of `RateLimit` (section 4 of the draft). `t=1` is the second of Retry-After, which the specification fixes:
 * a field that promised less or more would contradict it.
 */
export function limitField(terms: Terms, remaining: number): string {
  return (terms.limits[remaining] ??= `"${terms.name}";r=${remaining};t=1`);
}

export class TokenBucket {
  #terms: Terms;
  #level: number;
  #at: number;

  /** Full at `now`, whole microseconds of a clock that never goes back. */
  constructor(terms: Terms, now: number) {
    this.#terms = terms;
    this.#level = terms.capUnits;
    this.#at = now;
  }

  get terms(): Terms {
    return this.#terms;
  }

  /** Other terms from now on: what is in the bucket stays, as far as it fits. */
  change(terms: Terms, now: number): void {
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

  /** Whole tokens left. */
  remaining(now: number): number {
    this.#refill(now);
    return Math.floor(this.#level / unitsPerToken);
  }

  /** Until there is a token, microseconds: 0 when there is one; the far future for a rate of nothing. */
  microsToNext(now: number): number {
    this.#refill(now);
    const { unitsPerMicro } = this.#terms;
    const missing = unitsPerToken - this.#level;
    return missing <= 0 ? 0 : Math.min(Math.ceil(missing / unitsPerMicro), longestMicros);
  }

  /** A full bucket says nothing that a new one would not say. */
  isFull(now: number): boolean {
    this.#refill(now);
    return this.#level === this.#terms.capUnits;
  }

  #refill(now: number): void {
    const elapsed = now - this.#at;
    // An exchange that waited above this step comes with an earlier arrival than the last one's.
    if (elapsed <= 0) return;
    this.#at = now;
    const { unitsPerMicro, capUnits, fillMicros } = this.#terms;
    // Compared first: a long idle time times the rate would leave the whole numbers.
    if (elapsed >= fillMicros) this.#level = capUnits;
    else this.#level = Math.min(capUnits, this.#level + elapsed * unitsPerMicro);
  }
}
