/**
 * Keeps the requests of one session on one worker, because the worker still has the beginning of the session's prompt in
 * its cache. A session moves when its worker is too busy (decisions.md section 15).
 */
import type { Backend } from "sluice-gateway/internal/http";
import type { Clock, Threads } from "sluice-gateway/plugin";
import { BoundedMap } from "sluice-gateway/internal/toolkit";

/** A worker with this many requests in flight is not too busy, whatever the others do. */
const minBound = 4;
/** A worker is too busy from this multiple of the mean number of requests in flight. */
const maxShare = 1.5;
/** Time for which a session without requests is remembered. Model servers drop its cache about as soon. */
const keptMs = 10 * 60_000;
const maxSessions = 100_000;

export interface NamedBackend extends Backend {
  readonly id: string;
}

interface Home {
  readonly workerId: string;
  /** Monotonic time in milliseconds. */
  readonly until: number;
}

interface Moved {
  readonly key: string;
  readonly workerId: string;
}

export class Affinity implements Disposable {
  readonly #clock: Pick<Clock, "monotonic">;
  readonly #threads: Threads | undefined;
  readonly #topic: string;
  readonly #received: Disposable | undefined;
  readonly #homes = new BoundedMap<string, Home>(maxSessions);

  constructor(clock: Pick<Clock, "monotonic">, threads?: Threads, network = "") {
    this.#clock = clock;
    this.#threads = threads;
    this.#topic = `sessions of ${network}`;
    this.#received = threads?.receive(this.#topic, (value) => {
      // Only `choose` sends to this topic.
      const { key, workerId } = value as Moved;
      this.#keep(key, workerId);
    });
  }

  [Symbol.dispose](): void {
    this.#received?.[Symbol.dispose]();
  }

  /**
   * Returns the worker of the session `key` if it is one of `workers` and not too busy. Otherwise the session moves to
   * the less busy of the two workers that a rendezvous hash prefers, so that several gateways choose between the same
   * two; or to the next one that is not too busy. Undefined if `workers` is empty.
   */
  choose<T extends NamedBackend>(key: string, workers: readonly T[]): T | undefined {
    const total = workers.reduce((sum, { inFlight }) => sum + inFlight, 0);
    const bound = Math.max(minBound, (maxShare * total) / workers.length);
    const now = this.#clock.monotonic();
    const home = this.#homes.get(key);
    const known =
      home !== undefined && home.until > now
        ? workers.find(({ id }) => id === home.workerId)
        : undefined;
    const isKept = known !== undefined && known.inFlight < bound;
    const worker = isKept ? known : preferred(key, workers, bound);
    if (worker === undefined) return undefined;
    this.#keep(key, worker.id);
    if (!isKept) this.#threads?.send(this.#topic, { key, workerId: worker.id } satisfies Moved);
    return worker;
  }

  #keep(key: string, workerId: string): void {
    this.#homes.set(key, { workerId, until: this.#clock.monotonic() + keptMs });
  }
}

function preferred<T extends NamedBackend>(
  key: string,
  workers: readonly T[],
  bound: number,
): T | undefined {
  const hash = hashOf(key);
  const ranked = workers
    .map((worker) => ({ worker, score: mix(hash ^ hashOf(worker.id)) }))
    .toSorted((a, b) => b.score - a.score)
    .map(({ worker }) => worker);
  const [first, second] = ranked;
  if (first === undefined || second === undefined) return first;
  const better = second.inFlight < first.inFlight ? second : first;
  return better.inFlight < bound ? better : (ranked.find((one) => one.inFlight < bound) ?? better);
}

/** FNV-1a over UTF-16 code units, 32 bits. */
function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < text.length; at++) {
    hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  }
  return hash;
}

/** The finalizer of MurmurHash3: spreads every bit of its argument over 32 bits. */
function mix(hash: number): number {
  let h = hash ^ (hash >>> 16);
  h = Math.imul(h, 0x85ebca6b);
  h ^= h >>> 13;
  h = Math.imul(h, 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
}
