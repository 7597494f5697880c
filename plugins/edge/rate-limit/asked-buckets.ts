/**
 * The buckets of a process with several threads (`server.threads`). The main thread has them, and a thread that serves
 * asks it for each token, so the limits are those of the process.
 */
import type { Clock, Threads } from "sluice-gateway/plugin";
import type { Bucket } from "./bucket.ts";
import type { Buckets, CreateBucket } from "./buckets.ts";
import type { BucketTerms } from "./terms.ts";

interface Asked {
  readonly caller: string;
  readonly terms: BucketTerms;
}

interface Taken {
  readonly taken: boolean;
  readonly remaining: number;
  readonly microsToNext: number;
}

/** `limiter`: text that is the same for the same limiter in every thread. */
export function askedBuckets(threads: Threads, limiter: string): CreateBucket<AskedBucket> {
  return (caller, terms, now) =>
    // Only `serveBuckets` answers these calls.
    new AskedBucket(
      terms,
      now,
      (asked) => threads.call(limiter, { caller, terms: asked }) as Promise<Taken>,
    );
}

class AskedBucket implements Bucket {
  terms: BucketTerms;
  readonly #ask: (terms: BucketTerms) => Promise<Taken>;
  #remaining: number;
  #nextAt: number;

  constructor(terms: BucketTerms, now: number, ask: (terms: BucketTerms) => Promise<Taken>) {
    this.terms = terms;
    this.#ask = ask;
    this.#remaining = terms.burst;
    this.#nextAt = now;
  }

  change(terms: BucketTerms): void {
    this.terms = terms;
  }

  async take(now: number): Promise<boolean> {
    try {
      const { taken, remaining, microsToNext } = await this.#ask({ ...this.terms, limits: [] });
      this.#remaining = remaining;
      this.#nextAt = now + microsToNext;
      return taken;
    } catch {
      // The main thread does not answer.
      return false;
    }
  }

  remaining(): number {
    return this.#remaining;
  }

  microsToNext(now: number): number {
    return Math.max(0, this.#nextAt - now);
  }

  /** The state is in the main thread. */
  isFull(): boolean {
    return true;
  }
}

/** Answers the threads that serve. `bucketsOf` returns the buckets of the kind with this name. Only in the main thread. */
export function serveBuckets(
  threads: Threads,
  limiter: string,
  bucketsOf: (name: string) => Buckets,
  clock: Clock,
): Disposable {
  /** The terms by their values, because a bucket compares them by identity. */
  const known = new Map<string, BucketTerms>();
  return threads.serve(limiter, async (value): Promise<Taken> => {
    // Only `askedBuckets` calls this name.
    const { caller, terms: given } = value as Asked;
    const id = `${given.name} ${given.unitsPerMicro} ${given.capUnits}`;
    const terms = known.get(id) ?? given;
    known.set(id, terms);
    // The clocks of the threads differ.
    const now = Math.floor(clock.monotonic() * 1000);
    const bucket = bucketsOf(terms.name).of(caller, terms, now);
    const taken = await bucket.take(now);
    return { taken, remaining: bucket.remaining(now), microsToNext: bucket.microsToNext(now) };
  });
}
