import type { Bucket } from "./bucket.ts";
import type { BucketTerms } from "./terms.ts";

/** Number of old buckets that are checked for each new one when the table is full. */
const maxChecked = 8;

export type CreateBucket<B extends Bucket = Bucket> = (
  caller: string,
  terms: BucketTerms,
  now: number,
) => B;

/**
 * Holds at most `max` buckets. If a new caller arrives and the table is full, the oldest buckets are checked. A full
 * bucket is removed, which has no effect; a bucket in use moves to the end of the queue. If all checked buckets are in
 * use, the last of them is removed anyway, so that memory remains bounded; its caller gains at most one burst. (An
 * address bucket is full after one second without requests, so this takes more than `max` addresses per second.)
 */
export class Buckets<B extends Bucket = Bucket> {
  readonly #buckets = new Map<string, B>();
  readonly #max: number;
  readonly #create: CreateBucket<B>;

  constructor(max: number, create: CreateBucket<B>) {
    this.#max = max;
    this.#create = create;
  }

  get size(): number {
    return this.#buckets.size;
  }

  /** A new bucket is full. `now`: time in whole microseconds. */
  of(caller: string, terms: BucketTerms, now: number): B {
    const known = this.#buckets.get(caller);
    if (known !== undefined) {
      if (known.terms !== terms) known.change(terms, now);
      return known;
    }
    if (this.#buckets.size >= this.#max) this.#forgetOne(now);
    const bucket = this.#create(caller, terms, now);
    this.#buckets.set(caller, bucket);
    return bucket;
  }

  #forgetOne(now: number): void {
    let look = 0;
    for (const [caller, bucket] of this.#buckets) {
      this.#buckets.delete(caller);
      look++;
      if (look === maxChecked || look === this.#max || bucket.isFull(now)) return bucket.remove?.();
      this.#buckets.set(caller, bucket);
    }
  }
}
