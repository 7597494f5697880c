import { randomBytes } from "node:crypto";
import type { Clock, Redis } from "sluice-gateway/plugin";
import type { CreateBucket } from "./buckets.ts";
import { LeasedBucket } from "./leased-bucket.ts";
import { shareOf, type BucketTerms } from "./terms.ts";

/** `limiter`: text that is the same for the same limiter on every replica. */
export function leasedBuckets(
  redis: Redis,
  clock: Clock,
  limiter: string,
): CreateBucket<LeasedBucket> {
  const instance = randomBytes(9).toString("base64url");
  let holds = 0;
  const newHold = (): string => `${instance}.${(holds++).toString(36)}`;
  let shares = new WeakMap<BucketTerms, BucketTerms>();
  let { replicas } = redis;
  const shareOfTerms = (terms: BucketTerms): BucketTerms => {
    if (redis.replicas !== replicas) {
      replicas = redis.replicas;
      shares = new WeakMap();
    }
    const share = shares.get(terms) ?? shareOf(terms, replicas);
    shares.set(terms, share);
    return share;
  };
  const deps = { redis, clock, newHold, shareOf: shareOfTerms };
  return (caller, terms, now) => {
    const key = redis.keyOf("rate", `${limiter} ${terms.name} ${caller}`);
    return new LeasedBucket(deps, key, terms, now);
  };
}
