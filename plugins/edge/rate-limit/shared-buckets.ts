/**
 * The buckets of a process with several threads (`server.threads`). The main thread has one for each caller, in memory
 * that all threads share, so the limits are those of the process. A thread asks it for the memory with the caller's first
 * request, and takes tokens by itself from then on.
 */
import type { Awaitable, Clock, Threads } from "sluice-gateway/plugin";
import type { Bucket } from "./bucket.ts";
import type { Buckets, CreateBucket } from "./buckets.ts";
import type { BucketTerms } from "./terms.ts";
import { TokenBucket } from "./token-bucket.ts";

/** The level and its time (two 64-bit floats), then two 32-bit integers. */
const bytes = 24;
const lock = 4;
/** 1 when the main thread has removed the bucket. */
const removed = 5;
/** A thread waits for a lock in slices of this time. */
const waitMs = 1;
/** A lock is held for less than a microsecond of work, so the thread that holds one for longer has been ended. */
const maxWaits = 1_000;

class SharedBucket implements Bucket {
  readonly memory: SharedArrayBuffer;
  readonly #state: Float64Array;
  readonly #words: Int32Array;
  readonly #bucket: TokenBucket;

  /** `memory`: that of the same bucket in another thread. Without it, the bucket is new and full. */
  constructor(terms: BucketTerms, now: number, memory?: SharedArrayBuffer) {
    this.memory = memory ?? new SharedArrayBuffer(bytes);
    this.#state = new Float64Array(this.memory, 0, 2);
    this.#words = new Int32Array(this.memory);
    this.#bucket = new TokenBucket(terms, now);
    if (memory === undefined) this.#save();
  }

  get terms(): BucketTerms {
    return this.#bucket.terms;
  }

  get isRemoved(): boolean {
    return this.#words[removed] === 1;
  }

  change(terms: BucketTerms, now: number): void {
    this.#locked((bucket) => {
      bucket.change(terms, now);
      this.#save();
    });
  }

  take(now: number): boolean {
    return this.#locked((bucket) => {
      const isTaken = bucket.take(now);
      this.#save();
      return isTaken;
    });
  }

  remaining(now: number): number {
    return this.#locked((bucket) => bucket.remaining(now));
  }

  microsToNext(now: number): number {
    return this.#locked((bucket) => bucket.microsToNext(now));
  }

  isFull(now: number): boolean {
    return this.#locked((bucket) => bucket.isFull(now));
  }

  remove(): void {
    this.#locked(() => (this.#words[removed] = 1));
  }

  #locked<T>(work: (bucket: TokenBucket) => T): T {
    const words = this.#words;
    let waits = 0;
    while (Atomics.compareExchange(words, lock, 0, 1) !== 0 && waits < maxWaits) {
      waits++;
      Atomics.wait(words, lock, 1, waitMs);
    }
    this.#bucket.restore(this.#state[0] ?? 0, this.#state[1] ?? 0);
    const result = work(this.#bucket);
    Atomics.store(words, lock, 0);
    return result;
  }

  #save(): void {
    this.#state[0] = this.#bucket.level;
    this.#state[1] = this.#bucket.at;
  }
}

interface Asked {
  readonly caller: string;
  readonly terms: BucketTerms;
}

class JoinedBucket implements Bucket {
  readonly #join: (terms: BucketTerms) => Promise<SharedArrayBuffer | undefined>;
  #terms: BucketTerms;
  #shared: SharedBucket | undefined;

  /** `join`: resolves to undefined if the main thread does not answer. */
  constructor(
    join: (terms: BucketTerms) => Promise<SharedArrayBuffer | undefined>,
    terms: BucketTerms,
  ) {
    this.#join = join;
    this.#terms = terms;
  }

  get terms(): BucketTerms {
    return this.#terms;
  }

  change(terms: BucketTerms, now: number): void {
    this.#terms = terms;
    this.#shared?.change(terms, now);
  }

  take(now: number): Awaitable<boolean> {
    if (this.#shared?.isRemoved === false) return this.#shared.take(now);
    return this.#joinAndTake(now);
  }

  async #joinAndTake(now: number): Promise<boolean> {
    const memory = await this.#join(this.#terms);
    if (memory === undefined) return false;
    this.#shared = new SharedBucket(this.#terms, now, memory);
    return this.#shared.take(now);
  }

  remaining(now: number): number {
    return this.#shared?.remaining(now) ?? this.#terms.burst;
  }

  microsToNext(now: number): number {
    return this.#shared?.microsToNext(now) ?? 0;
  }

  /** The state is in the main thread. */
  isFull(): boolean {
    return true;
  }
}

export const createSharedBucket: CreateBucket<SharedBucket> = (_, terms, now) =>
  new SharedBucket(terms, now);

/** `limiter`: text that is the same for the same limiter in every thread. */
export function joinedBuckets(threads: Threads, limiter: string): CreateBucket {
  return (caller, terms) =>
    new JoinedBucket((current) => {
      const asked: Asked = { caller, terms: { ...current, limits: [] } };
      // Only `serveBuckets` answers this call.
      const memory = threads.call(limiter, asked) as Promise<SharedArrayBuffer>;
      return memory.catch(() => undefined);
    }, terms);
}

/** Called only in the main thread. `bucketsOf`: returns the buckets of the kind with this name. */
export function serveBuckets(
  threads: Threads,
  limiter: string,
  bucketsOf: (name: string) => Buckets<SharedBucket>,
  clock: Clock,
): Disposable {
  // Only `joinedBuckets` calls this name.
  return threads.serve(limiter, (asked) => {
    const { caller, terms } = asked as Asked;
    const now = Math.floor(clock.monotonic() * 1000);
    return bucketsOf(terms.name).of(caller, terms, now).memory;
  });
}
