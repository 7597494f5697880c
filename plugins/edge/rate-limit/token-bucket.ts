/**
 * An exact token bucket with continuous refill. It allows the same requests as GCRA (ITU-T I.371, with a tolerance of
 * burst - 1 tokens). It stores the level instead of the theoretical arrival time, so that a plan change can alter the
 * rate of a bucket that is in use.
 */
import type { Bucket } from "./bucket.ts";
import { maxMicros, unitsPerToken, type BucketTerms } from "./terms.ts";

export class TokenBucket implements Bucket {
  #terms: BucketTerms;
  #level: number;
  #at: number;

  constructor(terms: BucketTerms, now: number) {
    this.#terms = terms;
    this.#level = terms.capUnits;
    this.#at = now;
  }

  get level(): number {
    return this.#level;
  }

  get at(): number {
    return this.#at;
  }

  restore(level: number, at: number): void {
    this.#level = level;
    this.#at = at;
  }

  get terms(): BucketTerms {
    return this.#terms;
  }

  change(terms: BucketTerms, now: number): void {
    this.#refill(now);
    this.#terms = terms;
    this.#level = Math.min(this.#level, terms.capUnits);
  }

  take(now: number): boolean {
    this.#refill(now);
    if (this.#level < unitsPerToken) return false;
    this.#level -= unitsPerToken;
    return true;
  }

  remaining(now: number): number {
    this.#refill(now);
    return Math.floor(this.#level / unitsPerToken);
  }

  microsToNext(now: number): number {
    this.#refill(now);
    const { unitsPerMicro } = this.#terms;
    const missing = unitsPerToken - this.#level;
    return missing <= 0 ? 0 : Math.min(Math.ceil(missing / unitsPerMicro), maxMicros);
  }

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
