/**
 * The buckets of a process with several threads (`server.threads`). The main thread has them, and a thread that serves
 * asks it for each token, so the limits are those of the process. The requests of one turn of the event loop share a call.
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
  readonly isTaken: boolean;
  readonly remaining: number;
  readonly microsToNext: number;
}

/** Returns undefined if the main thread does not answer. */
type Ask = (asked: Asked) => Promise<Taken | undefined>;

/** `limiter`: text that is the same for the same limiter in every thread. */
export function askedBuckets(threads: Threads, limiter: string): CreateBucket<AskedBucket> {
  let asked: Asked[] = [];
  let answers: Promise<readonly Taken[]> | undefined;
  const send = async (): Promise<readonly Taken[]> => {
    await new Promise(setImmediate);
    const all = asked;
    asked = [];
    answers = undefined;
    // Only `serveBuckets` answers this call.
    return threads.call(limiter, all).catch(() => []) as Promise<readonly Taken[]>;
  };
  const ask: Ask = async (one) => {
    const place = asked.push(one) - 1;
    return (await (answers ??= send()))[place];
  };
  return (caller, terms, now) => new AskedBucket(ask, caller, terms, now);
}

class AskedBucket implements Bucket {
  readonly #ask: Ask;
  readonly #caller: string;
  #terms: BucketTerms;
  #remaining: number;
  #nextAt: number;

  constructor(ask: Ask, caller: string, terms: BucketTerms, now: number) {
    this.#ask = ask;
    this.#caller = caller;
    this.#terms = terms;
    this.#remaining = terms.burst;
    this.#nextAt = now;
  }

  get terms(): BucketTerms {
    return this.#terms;
  }

  change(terms: BucketTerms): void {
    this.#terms = terms;
  }

  async take(now: number): Promise<boolean> {
    const taken = await this.#ask({ caller: this.#caller, terms: { ...this.#terms, limits: [] } });
    if (taken === undefined) return false;
    this.#remaining = taken.remaining;
    this.#nextAt = now + taken.microsToNext;
    return taken.isTaken;
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
  const take = async ({ caller, terms: given }: Asked): Promise<Taken> => {
    const id = `${given.name} ${given.unitsPerMicro} ${given.capUnits}`;
    const terms = known.get(id) ?? given;
    known.set(id, terms);
    // The clocks of the threads differ.
    const now = Math.floor(clock.monotonic() * 1000);
    const bucket = bucketsOf(terms.name).of(caller, terms, now);
    const isTaken = await bucket.take(now);
    return { isTaken, remaining: bucket.remaining(now), microsToNext: bucket.microsToNext(now) };
  };
  // Only `askedBuckets` calls this name.
  return threads.serve(limiter, (asked) => Promise.all((asked as readonly Asked[]).map(take)));
}
