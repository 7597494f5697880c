/**
 * A bucket in Redis that several replicas share. A replica holds some of its tokens, so that most requests need no round
 * trip; the holds count against the capacity (take-script.ts). While Redis does not answer, each replica allows its
 * share of the limit.
 */
import { randomBytes } from "node:crypto";
import type { Awaitable, Clock, Redis } from "sluice-gateway/plugin";
import type { Bucket } from "./bucket.ts";
import type { CreateBucket } from "./buckets.ts";
import { takeScript } from "./take-script.ts";
import { maxMicros, shareOf, unitsPerToken, type BucketTerms } from "./terms.ts";
import { TokenBucket } from "./token-bucket.ts";

/** Time for which held tokens may be used. It is half of the time after which Redis ends the hold. */
const heldMicros = 1_000_000;
/** Minimum time between two calls that are made in advance, without a waiting request. */
const aheadMicros = 10_000;

interface LeasedBucketDeps {
  readonly redis: Redis;
  readonly clock: Clock;
  readonly newHold: () => string;
  /** Returns the terms of this replica's share. Equal arguments return the same object until the number changes. */
  readonly shareOf: (terms: BucketTerms) => BucketTerms;
}

interface WaitingRequest {
  readonly now: number;
  readonly resolve: PromiseWithResolvers<boolean>["resolve"];
}

export class LeasedBucket implements Bucket {
  readonly #deps: LeasedBucketDeps;
  readonly #key: string;
  #terms: BucketTerms;
  /**
   * The tokens that this replica may allow alone. Every request takes from it, even while Redis answers, so that the
   * replica does not gain a second burst when Redis becomes unreachable.
   */
  readonly #share: TokenBucket;
  /** Name of the hold in Redis. After a call without an answer it is replaced, because its tokens are then unknown. */
  #hold: string;
  #held = 0;
  #heldUntil = 0;
  #lease = 0;
  /** Tokens used from the hold since the last call. */
  #used = 0;
  /** Tokens that were allowed while Redis was unreachable and must still be taken from the bucket in Redis. */
  #debt = 0;
  /** Whole tokens in Redis after the last call. */
  #left: number;
  /** Time before which there cannot be a token in Redis. */
  #emptyUntil = 0;
  #askedAt = -Infinity;
  #isAsking = false;
  #waiting: WaitingRequest[] = [];

  constructor(deps: LeasedBucketDeps, key: string, terms: BucketTerms, now: number) {
    this.#deps = deps;
    this.#key = key;
    this.#terms = terms;
    this.#share = new TokenBucket(deps.shareOf(terms), now);
    this.#hold = deps.newHold();
    this.#left = terms.burst;
  }

  get terms(): BucketTerms {
    return this.#terms;
  }

  change(terms: BucketTerms, now: number): void {
    this.#terms = terms;
    this.#emptyUntil = 0;
    this.#share.change(this.#deps.shareOf(terms), now);
  }

  take(now: number): Awaitable<boolean> {
    if (!this.#deps.redis.isUp) return this.#takeFromShare(now);
    const current = this.#micros();
    if (this.#heldAt(current) > 0) {
      this.#held--;
      this.#used++;
      this.#share.take(now);
      if (this.#mayAskAhead(current)) void this.#ask();
      return true;
    }
    if (current < this.#emptyUntil) return false;
    return new Promise((resolve) => {
      this.#waiting.push({ now, resolve });
      if (!this.#isAsking) void this.#ask();
    });
  }

  remaining(now: number): number {
    if (!this.#deps.redis.isUp) return this.#share.remaining(now);
    return Math.min(this.#terms.burst, this.#heldAt(this.#micros()) + this.#left);
  }

  microsToNext(now: number): number {
    if (!this.#deps.redis.isUp) return this.#share.microsToNext(now);
    const current = this.#micros();
    if (this.#heldAt(current) > 0) return 0;
    return Math.min(Math.max(0, this.#emptyUntil - current), maxMicros);
  }

  isFull(now: number): boolean {
    const current = this.#micros();
    const isIdle = !this.#isAsking && current >= this.#heldUntil && current >= this.#emptyUntil;
    return isIdle && this.#share.isFull(now);
  }

  /** Not the arrival time of a request, because that would let expired tokens be used. */
  #micros(): number {
    return Math.floor(this.#deps.clock.monotonic() * 1000);
  }

  #heldAt(current: number): number {
    return current < this.#heldUntil ? this.#held : 0;
  }

  #mayAskAhead(current: number): boolean {
    return (
      !this.#isAsking &&
      2 * this.#held <= this.#lease &&
      this.#left >= 4 * this.#deps.redis.replicas &&
      current - this.#askedAt >= aheadMicros
    );
  }

  #takeFromShare(now: number): boolean {
    const terms = this.#deps.shareOf(this.#terms);
    if (terms !== this.#share.terms) this.#share.change(terms, now);
    if (!this.#share.take(now)) return false;
    this.#debt++;
    return true;
  }

  /** Requests tokens for all waiting requests, and some more to hold. Never rejects. */
  async #ask(): Promise<void> {
    this.#isAsking = true;
    // Requests that arrive at the same moment share the call.
    await Promise.resolve();
    const waiting = this.#waiting;
    this.#waiting = [];
    try {
      const taken = await this.#call(waiting.length);
      for (const [index, { now, resolve }] of waiting.entries()) {
        if (index < taken) this.#share.take(now);
        resolve(index < taken);
      }
    } catch {
      // It is not known whether the call had an effect. A new hold has no tokens, and Redis counts the old one as
      // spent.
      this.#hold = this.#deps.newHold();
      this.#held = 0;
      this.#used = 0;
      for (const { now, resolve } of waiting) resolve(this.#takeFromShare(now));
    }
    this.#isAsking = false;
    const later = this.#waiting;
    this.#waiting = [];
    for (const { now, resolve } of later) resolve(this.take(now));
  }

  /** Returns the number of tokens for the requests that wait. Rejects if Redis does not answer. */
  async #call(waiting: number): Promise<number> {
    const sentAt = this.#micros();
    const { unitsPerMicro, capUnits } = this.#terms;
    const used = this.#used;
    const debt = this.#debt;
    const returned = sentAt < this.#heldUntil ? 0 : this.#held;
    this.#askedAt = sentAt;
    this.#used = 0;
    this.#held -= returned;
    const { redis } = this.#deps;
    const reply = readReply(
      await redis.run("rates", takeScript, this.#key, [
        this.#hold,
        waiting,
        used,
        returned,
        debt,
        redis.replicas,
        unitsPerMicro,
        capUnits,
      ]),
    );
    this.#debt -= debt;
    this.#held += reply.lent;
    this.#lease = this.#held;
    this.#heldUntil = sentAt + heldMicros;
    this.#left = Math.floor(reply.level / unitsPerToken);
    this.#emptyUntil =
      this.#left > 0 ? 0 : sentAt + Math.floor((unitsPerToken - reply.level) / unitsPerMicro);
    return reply.taken;
  }
}

function readReply(reply: unknown): {
  readonly taken: number;
  readonly lent: number;
  readonly level: number;
} {
  const [taken, lent, level] = Array.isArray(reply) ? reply.map(Number) : [];
  const isAmount = (value: number | undefined): value is number =>
    value !== undefined && value >= 0 && Number.isSafeInteger(value);
  if (!isAmount(taken) || !isAmount(lent) || !isAmount(level)) {
    throw new Error("unexpected reply of the script");
  }
  return { taken, lent, level };
}

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
