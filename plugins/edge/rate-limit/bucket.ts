/** `now` is always a time in whole microseconds of a monotonic clock. */
import type { Awaitable } from "sluice-gateway/plugin";
import type { BucketTerms } from "./terms.ts";

export interface Bucket {
  readonly terms: BucketTerms;
  /** The tokens in the bucket are kept up to the new burst. */
  change(terms: BucketTerms, now: number): void;
  /** Takes a token if there is one. Never rejects. */
  take(now: number): Awaitable<boolean>;
  remaining(now: number): number;
  /** Returns 0 if there is a token, and `maxMicros` if there will never be one. */
  microsToNext(now: number): number;
  /** A new bucket would behave in the same way as a full one. */
  isFull(now: number): boolean;
  /** Called when the bucket is removed from its table. */
  remove?(): void;
}
