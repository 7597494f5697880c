/** Answers calls of whitelisted methods from the cache, from an identical call in flight, or from a node. */
import type { Metrics } from "sluice-gateway/plugin";
import type { JsonBody } from "./json-body.ts";
import { AnswerCache } from "./cache.ts";
import { isImmutable } from "./finality.ts";
import { SharedCall, type SingleFlight } from "./shared-call.ts";
import { createMethodStates, type MethodState } from "./method-state.ts";
import type { NodeFailure, NodePool } from "./node-pool.ts";
import { withoutWhiteSpace } from "./json-part.ts";
import { createLedgerMetrics, type LedgerMetrics } from "./ledger-metrics.ts";
import type { CallListener } from "./call-listener.ts";
import type { Method } from "./whitelist.ts";

/** Longer params (in characters) are neither cached nor shared, because their key would cost more than it saves. */
const maxKeyLength = 64 * 1024;

export interface CallSettings {
  readonly name: string;
  readonly cacheBytes: number;
  readonly singleFlight: boolean;
}

export class CallDispatcher implements SingleFlight {
  /** Whitelisted methods, by the name that clients use. */
  readonly listed: ReadonlyMap<string, MethodState>;
  /** Methods that only the gateway itself may call. */
  readonly internal: ReadonlyMap<string, MethodState>;
  readonly cache: AnswerCache;
  readonly #pool: NodePool;
  readonly #caching: boolean;
  readonly #sharing: boolean;
  readonly #metrics: LedgerMetrics;
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
    this.cache = new AnswerCache(settings.cacheBytes);
    this.#caching = settings.cacheBytes > 0;
    this.#sharing = settings.singleFlight;
    this.listed = createMethodStates(settings.name, methods, this.cache, metrics);
    this.internal = createMethodStates(settings.name, internal, this.cache, metrics);
    this.#metrics = createLedgerMetrics(settings.name, metrics);
  }

  /**
   * Returns the answer if it is available at once; the caller must not write to it. Otherwise returns undefined, and
   * the waiter is called later. `params`: valid JSON text of an array or object, or an empty string for none.
   */
  call(methodState: MethodState, params: string, waiter: CallListener): JsonBody | undefined {
    const { method } = methodState;
    if (method.gatewayAnswer !== undefined) return method.gatewayAnswer;
    if (this.#pool.epoch !== this.#epoch) this.#newEpoch();
    const sharing = this.#sharing && method.isShareable;
    const caching = this.#caching && method.isCacheable;
    const key = sharing || caching ? keyOf(params) : undefined;
    if (key === undefined) {
      this.#send(new SharedCall(methodState, params, undefined, this.#pool, this, waiter));
      return undefined;
    }
    const kept = caching ? this.cache.get(methodState.answers, key) : undefined;
    if (kept !== undefined) {
      methodState.fromCache.add(1);
      return kept;
    }
    const joined = sharing ? methodState.sharedCalls.get(key) : undefined;
    if (joined !== undefined) {
      methodState.fromSharedCall.add(1);
      joined.join(waiter);
      return undefined;
    }
    const sharedCall = new SharedCall(methodState, params, key, this.#pool, this, waiter);
    if (sharing) methodState.sharedCalls.set(key, sharedCall);
    this.#send(sharedCall);
    return undefined;
  }

  forget({ answers }: MethodState, params: string): void {
    const key = keyOf(params);
    if (key === undefined) return;
    this.cache.delete(answers, key);
    this.#metrics.cache(this.cache);
  }

  onAnswer(sharedCall: SharedCall, kind: "result" | "error", body: JsonBody): void {
    this.#leave(sharedCall);
    if (kind === "error" || sharedCall.key === undefined) return;
    const { methodState, key, params, finalized } = sharedCall;
    if (!this.#caching || !methodState.method.isCacheable) return;
    // The nodes have changed (chain, software or runtime) since the call was sent.
    if (sharedCall.epoch !== this.#pool.epoch || sharedCall.epoch !== this.#epoch) return;
    if (!isImmutable(methodState.method, params, body, finalized)) return;
    if (!this.cache.set(methodState.answers, key, body)) return;
    methodState.stored.add(1);
    this.#metrics.cache(this.cache);
  }

  onError(sharedCall: SharedCall, reason: NodeFailure): void {
    this.#leave(sharedCall);
    this.#metrics.failures[reason].add(1);
  }

  onReleased(sharedCall: SharedCall): void {
    this.#leave(sharedCall);
  }

  #send(sharedCall: SharedCall): void {
    sharedCall.methodState.fromNode.add(1);
    this.#pool.send(sharedCall);
  }

  #leave(sharedCall: SharedCall): void {
    const { key } = sharedCall;
    if (key === undefined) return;
    const { sharedCalls } = sharedCall.methodState;
    if (sharedCalls.get(key) === sharedCall) sharedCalls.delete(key);
  }

  /** Earlier answers must not be used, and earlier calls must not be joined. */
  #newEpoch(): void {
    this.#epoch = this.#pool.epoch;
    this.cache.clear();
    for (const methodState of this.listed.values()) methodState.sharedCalls.clear();
    for (const methodState of this.internal.values()) methodState.sharedCalls.clear();
    this.#metrics.cache(this.cache);
  }
}

/** Returns the same key for params that differ only in white space outside strings. Undefined for long params. */
function keyOf(params: string): string | undefined {
  if (params.length > maxKeyLength) return undefined;
  if (params === "") return "[]";
  return params.includes(" ") || params.includes("\n") ? withoutWhiteSpace(params) : params;
}
