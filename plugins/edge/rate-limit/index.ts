/**
 * Takes one token per request, and per message on a WebSocket, from the bucket of the key, or of the address without a
 * valid key.
 */
import { addressKey } from "sluice-gateway/internal/http";
import { defineStep, refuse, type Exchange, type Reply } from "sluice-gateway/plugin";
import type { KeyPrincipal } from "sluice-gateway/services";
import { andThen, stableJson } from "sluice-gateway/internal/toolkit";
import type { Bucket } from "./bucket.ts";
import { Buckets, type CreateBucket } from "./buckets.ts";
import { leasedBuckets } from "./leased-bucket.ts";
import { createSharedBucket, joinedBuckets, serveBuckets } from "./shared-buckets.ts";
import { createTerms, limitField, type BucketTerms } from "./terms.ts";
import { TokenBucket } from "./token-bucket.ts";

interface Options {
  readonly rps?: number;
  readonly burst?: number;
  readonly by: "principal" | "address";
  readonly ipv6Prefix: number;
  readonly maxBuckets: number;
}

/** gateway.md, "Request rate": requests per second of callers without a key. */
const addressRps = 5;

export default defineStep<Options>({
  name: "rate-limit",
  description:
    "Limits requests with exact token buckets: per key at the rate of its plan, per address for callers without a valid key.",
  options: {
    type: "object",
    properties: {
      rps: {
        description:
          "Requests per second of every bucket. Default: the rate of the plan for keys, 5 for addresses.",
        type: "number",
        minimum: 0.001,
        maximum: 1_000_000,
      },
      burst: {
        description:
          "Capacity of every bucket. Default: twice the rate for keys, the rate for addresses.",
        type: "number",
        minimum: 1,
        maximum: 1_000_000,
      },
      by: {
        description:
          "`principal`: each valid key has a bucket, all other callers share the bucket of their address. `address`: all callers share the bucket of their address.",
        enum: ["principal", "address"],
        default: "principal",
      },
      ipv6Prefix: {
        description: "Number of leading bits of an IPv6 address that share a bucket.",
        type: "integer",
        minimum: 16,
        maximum: 128,
        default: 64,
      },
      maxBuckets: {
        description: "Maximum number of buckets, separately for keys and for addresses.",
        type: "integer",
        minimum: 1,
        maximum: 10_000_000,
        default: 100_000,
      },
    },
    additionalProperties: false,
  },
  wants: { principal: "requestHeaders" },
  permissions: { deployment: ["store"] },
  operation: () => ({
    refusals: [{ code: "GATEWAY_RATE_LIMITED", description: "Too many requests were sent." }],
    answerHeaders: {
      RateLimit: {
        description:
          "Remainder of each limit: `r` requests, and `t` seconds until more are available.",
        schema: { type: "string", examples: ['"key";r=19;t=1'] },
      },
      "RateLimit-Policy": {
        description: "Each limit: `q` requests in a window of `w` seconds.",
        schema: { type: "string", examples: ['"key";q=20;w=2'] },
      },
    },
  }),
  start(options, { clock, mode, store: { redis }, threads }) {
    // Replicas and threads with the same options share their buckets.
    const name = `${mode} ${stableJson(options)}`;
    const create = (): CreateBucket => {
      if (redis !== undefined) return leasedBuckets(redis, clock, name);
      if (threads !== undefined) return joinedBuckets(threads, name);
      return (_, terms, now) => new TokenBucket(terms, now);
    };
    const limiter = new Limiter(options, create());
    let serving: Disposable | undefined;
    if (threads?.index === 0) {
      const shared = new Limiter(options, createSharedBucket);
      serving = serveBuckets(threads, name, (kind) => shared.bucketsOf(kind), clock);
    }
    const refusal = refuse("GATEWAY_RATE_LIMITED");
    const take = (x: Exchange, arrivedMonotonic: number) => {
      const now = micros(arrivedMonotonic);
      const bucket = limiter.bucketOf(x, now);
      const taken = bucket.take(now);
      if (taken === true) return undefined;
      return andThen(taken, (isTaken): Reply | undefined => {
        if (isTaken) return undefined;
        const { name: scope, burst: limit } = bucket.terms;
        const arrivedAt = x.arrivedAt + arrivedMonotonic - x.arrivedMonotonic;
        const clearsAt = Math.ceil(arrivedAt + bucket.microsToNext(now) / 1000);
        return { ...refusal, reached: { scope, unit: "requests", used: limit, limit, clearsAt } };
      });
    };
    return {
      stop: () => serving?.[Symbol.dispose](),
      requestHeaders: (x) => take(x, x.arrivedMonotonic),
      message: take,
      // A limit in shadow mode must not slow down clients that follow these fields.
      ...(mode === "enforce" && {
        responseHeaders(x, head) {
          const now = micros(clock.monotonic());
          const bucket = limiter.bucketOf(x, now);
          // Added and not set, because each limiter of a route has its own policy.
          head.add("ratelimit-policy", bucket.terms.policy);
          head.add("ratelimit", limitField(bucket.terms, bucket.remaining(now)));
        },
      }),
    };
  },
});

function micros(monotonicMs: number): number {
  return Math.floor(monotonicMs * 1000);
}

class Limiter<B extends Bucket> {
  readonly #options: Options;
  readonly #keys: Buckets<B>;
  readonly #addresses: Buckets<B>;
  readonly #addressTerms: BucketTerms;
  readonly #keyTerms = new Map<number, BucketTerms>();

  constructor(options: Options, create: CreateBucket<B>) {
    const { rps = addressRps, burst = rps, maxBuckets } = options;
    this.#options = options;
    this.#keys = new Buckets(maxBuckets, create);
    this.#addresses = new Buckets(maxBuckets, create);
    this.#addressTerms = createTerms("address", rps, burst);
  }

  bucketsOf(name: string): Buckets<B> {
    return name === this.#addressTerms.name ? this.#addresses : this.#keys;
  }

  bucketOf(x: Exchange, now: number): B {
    const principal = this.#options.by === "address" ? undefined : x.peek("principal");
    if (principal?.kind === "key") {
      return this.#keys.of(principal.key.id, this.#termsOf(principal), now);
    }
    const address = addressKey(x.request.address, this.#options.ipv6Prefix);
    return this.#addresses.of(address, this.#addressTerms, now);
  }

  #termsOf(principal: KeyPrincipal): BucketTerms {
    const rps = this.#options.rps ?? principal.rps;
    let terms = this.#keyTerms.get(rps);
    if (terms === undefined) {
      terms = createTerms("key", rps, this.#options.burst ?? 2 * rps);
      this.#keyTerms.set(rps, terms);
    }
    return terms;
  }
}
