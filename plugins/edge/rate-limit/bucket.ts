/** The bucket of one caller, as the step sees it. `now` is always a time in whole microseconds of a monotonic clock. */
import type { Awaitable } from "sluice-gateway/plugin";
import type { BucketTerms } from "./terms.ts";

export interface Bucket {
  readonly terms: BucketTerms;
  /** The tokens in the bucket are kept up to the new burst. */
  change(terms: BucketTerms, now: number): void;
  /** Takes a token if there is one. Never rejects. */
  take(now: number): Awaitable<boolean>;
  remaining(now: number): number;
  /** Returns the microseconds until there can be a token: 0 if there is one. */
  microsToNext(now: number): number;
  /** Returns true if the bucket is full, so that a new one would behave in the same way. */
  isFull(now: number): boolean;
  /** Called when the bucket is removed from its table. */
  remove?(): void;
}
