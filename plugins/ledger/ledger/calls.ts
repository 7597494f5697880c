/** Answers calls of whitelisted methods: from the cache, from an identical call in flight, from a node. */
import type { Metrics } from "../../../src/services/metrics.ts";
import type { Body } from "./body.ts";
import { AnswerCache } from "./cache.ts";
import { isImmutable } from "./finality.ts";
import { Flight, type Tower, type Waiter } from "./flight.ts";
import { createLanes, type Lane } from "./lane.ts";
import type { NodeFailure, NodePool } from "./node.ts";
import { compact } from "./part.ts";
import { createStats, type LedgerStats } from "./stats.ts";
import type { Method } from "./whitelist.ts";

/** Params beyond this (characters) are neither kept nor shared: their key would cost more than it saves. */
const largestKey = 64 * 1024;

export interface CallSettings {
  /** The upstream's name, for metrics. */
  readonly name: string;
  readonly cacheBytes: number;
  readonly singleFlight: boolean;
}

export class Calls implements Tower {
  /** The whitelist's, by the client's name of the method. */
  readonly lanes: ReadonlyMap<string, Lane>;
  /** Of methods that only the gateway itself may call. */
  readonly internal: ReadonlyMap<string, Lane>;
  readonly #pool: NodePool;
  readonly #cache: AnswerCache;
  readonly #caching: boolean;
  readonly #sharing: boolean;
  readonly #stats: LedgerStats;
  #epoch: number;

  constructor(
    settings: CallSettings,
    methods: ReadonlyMap<string, Method>,
    internal: ReadonlyMap<string, Method>,
    pool: NodePool,
    metrics: Metrics,
  ) {
    this.#pool = pool;
    this.#epoch = pool.epoch;
    this.#cache = new AnswerCache(settings.cacheBytes);
    this.#caching = settings.cacheBytes > 0;
    this.#sharing = settings.singleFlight;
    this.lanes = createLanes(settings.name, methods, this.#cache, metrics);
    this.internal = createLanes(settings.name, internal, this.#cache, metrics);
    this.#stats = createStats(settings.name, metrics);
  }

  /**
   * The answer at hand, which is not to be written to; undefined: the waiter will hear of it, later.
   * `params`: valid JSON text of an array or object, empty for none.
   */
  ask(lane: Lane, params: string, waiter: Waiter): Body | undefined {
    const { method } = lane;
    if (method.own !== undefined) return method.own;
    if (this.#pool.epoch !== this.#epoch) this.#newEpoch();
    const sharing = this.#sharing && method.shared;
    const caching = this.#caching && method.kept;
    const key = sharing || caching ? keyOf(params) : undefined;
    if (key === undefined) {
      this.#send(new Flight(lane, params, undefined, this.#pool, this, waiter));
      return undefined;
    }
    const kept = caching ? this.#cache.get(lane.room, key) : undefined;
    if (kept !== undefined) {
      lane.fromCache.add(1);
      return kept;
    }
    const joined = sharing ? lane.flights.get(key) : undefined;
    if (joined !== undefined) {
      lane.fromFlight.add(1);
      joined.join(waiter);
      return undefined;
    }
    const flight = new Flight(lane, params, key, this.#pool, this, waiter);
    if (sharing) lane.flights.set(key, flight);
    this.#send(flight);
    return undefined;
  }

  landed(flight: Flight, kind: "result" | "error", body: Body): void {
    this.#leave(flight);
    if (kind === "error" || flight.key === undefined) return;
    const { lane, key, params, finalized } = flight;
    if (!this.#caching || !lane.method.kept) return;
    // Asked of nodes that are no longer what they were.
    if (flight.epoch !== this.#pool.epoch || flight.epoch !== this.#epoch) return;
    if (!isImmutable(lane.method, params, body, finalized)) return;
    if (!this.#cache.set(lane.room, key, body)) return;
    lane.kept.add(1);
    this.#stats.cache(this.#cache);
  }

  lost(flight: Flight, reason: NodeFailure): void {
    this.#leave(flight);
    this.#stats.failures[reason].add(1);
  }

  #send(flight: Flight): void {
    flight.lane.fromNode.add(1);
    this.#pool.send(flight);
  }

  #leave(flight: Flight): void {
    const { key } = flight;
    if (key === undefined) return;
    const { flights } = flight.lane;
    if (flights.get(key) === flight) flights.delete(key);
  }

  /** The nodes have become others: nothing of before may be answered or joined. */
  #newEpoch(): void {
    this.#epoch = this.#pool.epoch;
    this.#cache.clear();
    for (const lane of this.lanes.values()) lane.flights.clear();
    for (const lane of this.internal.values()) lane.flights.clear();
    this.#stats.cache(this.#cache);
  }
}

/** Equal for params that differ only in white space outside strings; undefined: too long for a key. */
function keyOf(params: string): string | undefined {
  if (params.length > largestKey) return undefined;
  if (params === "") return "[]";
  return params.includes(" ") || params.includes("\n") ? compact(params) : params;
}
