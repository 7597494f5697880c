/** The buckets of all callers of one kind, bounded in number. */
import { TokenBucket, type Terms } from "./token-bucket.ts";

/** Old buckets looked at for each new one once the table is full. */
const looks = 8;

/**
 * At most `max` buckets. When a newcomer finds the table full, the oldest buckets are looked at: a full one is
 * forgotten, which changes nothing; one in use goes to the back of the queue. If all of those looked at are in use, the
 * last of them is forgotten nevertheless: memory stays bounded, and that caller gains at most one burst. (An address
 * bucket is full after one second of rest, so it takes more than `max` addresses a second to get there.)
 */
export class Buckets {
  readonly #buckets = new Map<string, TokenBucket>();
  readonly #max: number;

  constructor(max: number) {
    this.#max = max;
  }

  get size(): number {
    return this.#buckets.size;
  }

  /** The caller's bucket on these terms, full when it is new. `now`: whole microseconds. */
  of(caller: string, terms: Terms, now: number): TokenBucket {
    const known = this.#buckets.get(caller);
    if (known !== undefined) {
      if (known.terms !== terms) known.change(terms, now);
      return known;
    }
    if (this.#buckets.size >= this.#max) this.#forgetOne(now);
    const bucket = new TokenBucket(terms, now);
    this.#buckets.set(caller, bucket);
    return bucket;
  }

  #forgetOne(now: number): void {
    let look = 0;
    for (const [caller, bucket] of this.#buckets) {
      this.#buckets.delete(caller);
      look++;
      if (look === looks || look === this.#max || bucket.isFull(now)) return;
      this.#buckets.set(caller, bucket);
    }
  }
}
