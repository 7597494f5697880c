/** Answers calls of whitelisted methods from the cache, from an identical call in flight, or from a node. */
import type { Backend } from "sluice-gateway/internal/http";
import type { Metrics, UpstreamFailure } from "sluice-gateway/plugin";
import { bodyOf, type JsonBody } from "./json-body.ts";
import { AnswerCache } from "./cache.ts";
import { isBlockHash, isImmutable, readNumber } from "./finality.ts";
import { createMethodStates, type MethodState } from "./method-state.ts";
import type { BlockOfCall, CallCarrier, NodeFailure, NodeRequest } from "./node-pool.ts";
import type { Pool } from "./pool/pool.ts";
import { elementOf, withoutWhiteSpace } from "./json-part.ts";
import type { PoolConfig } from "./options.ts";
import { createLedgerMetrics, type LedgerMetrics } from "./ledger-metrics.ts";
import type { CallListener, JoinableCall } from "./call-listener.ts";
import type { Method } from "./whitelist.ts";

/** Longer params (in characters) are neither cached nor shared, because their key would cost more than it saves. */
const maxKeyLength = 64 * 1024;

export class CallDispatcher {
  /** Whitelisted methods, by the name that clients use. */
  readonly listed: ReadonlyMap<string, MethodState>;
  /** Methods that only the gateway itself may call. */
  readonly internal: ReadonlyMap<string, MethodState>;
  readonly cache: AnswerCache;
  readonly #pool: Pool;
  readonly #caching: boolean;
  readonly #sharing: boolean;
  readonly #metrics: LedgerMetrics;
  #epoch: number;

  constructor(
    { name, cacheBytes, singleFlight }: PoolConfig,
    methods: ReadonlyMap<string, Method>,
    internal: ReadonlyMap<string, Method>,
    pool: Pool,
    metrics: Metrics,
  ) {
    this.#pool = pool;
    this.#epoch = pool.epoch;
    this.cache = new AnswerCache(cacheBytes);
    this.#caching = cacheBytes > 0;
    this.#sharing = singleFlight;
    this.listed = createMethodStates(name, methods, this.cache, metrics);
    this.internal = createMethodStates(name, internal, this.cache, metrics);
    this.#metrics = createLedgerMetrics(name, metrics);
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
    // While no node is usable, a further call would have to wait for the same node.
    if (joined !== undefined && !(joined.isStuck && this.#pool.ready)) {
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
    this.leave(sharedCall);
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
    this.leave(sharedCall);
    this.#metrics.failures[reason].add(1);
  }

  #send(sharedCall: SharedCall): void {
    sharedCall.methodState.fromNode.add(1);
    this.#pool.send(sharedCall);
  }

  /** Called when no further listener may join the call. */
  leave(sharedCall: SharedCall): void {
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

/** Longer params (in characters) name many keys, whose proof is not cheap. */
const maxCheapParams = 1_024;

/**
 * One call to the nodes, shared by all who wait for its answer (single flight). The call continues even if a waiting
 * client disconnects. If it fails, it fails for all waiters: the pool has already retried it, and one more attempt per
 * waiter would only add to the load that made it fail.
 */
class SharedCall implements NodeRequest, JoinableCall {
  readonly methodState: MethodState;
  params: string;
  /** Cache key of the params. Undefined if the call is not shared and its answer is not cached. */
  key: string | undefined;
  /** The pool's epoch and finalized block when the call was sent. */
  readonly epoch: number;
  readonly finalized: number | undefined;
  readonly #dispatcher: CallDispatcher;
  readonly #first: CallListener;
  #others: CallListener[] | undefined;
  #carrier: CallCarrier | undefined;
  #node: Pick<Backend, "isEjected"> | undefined;
  #released = 0;
  #isReleased = false;
  #hasEnded = false;

  constructor(
    methodState: MethodState,
    params: string,
    key: string | undefined,
    known: { readonly epoch: number; readonly finalized: number | undefined },
    dispatcher: CallDispatcher,
    waiter: CallListener,
  ) {
    this.methodState = methodState;
    this.params = params;
    this.key = key;
    this.epoch = known.epoch;
    this.finalized = known.finalized;
    this.#dispatcher = dispatcher;
    this.#first = waiter;
    waiter.waitsFor = this;
  }

  get method(): string {
    return this.methodState.method.nodeName;
  }
  get retry(): boolean {
    return this.methodState.method.retry && !this.#isReleased;
  }
  get cheap(): boolean {
    return this.methodState.method.cheap && this.params.length < maxCheapParams;
  }
  get caller(): string | undefined {
    return this.#first.caller;
  }
  get block(): BlockOfCall | undefined {
    return blockOfCall(this.methodState.method, this.params);
  }
  get quorum(): number {
    return this.methodState.method.quorum;
  }

  join(waiter: CallListener): void {
    if (this.#others === undefined) this.#others = [waiter];
    else this.#others.push(waiter);
    waiter.waitsFor = this;
  }

  get isStuck(): boolean {
    return this.#node?.isEjected === true;
  }

  onAttempt(node: Pick<Backend, "isEjected">): void {
    this.#node = node;
  }

  onCarrier(carrier: CallCarrier | undefined): void {
    this.#carrier = carrier;
  }

  release(): void {
    if (++this.#released <= (this.#others?.length ?? 0) || this.#hasEnded) return;
    const carrier = this.#carrier;
    this.#isReleased = true;
    this.#dispatcher.leave(this);
    // A batch may still wait for a connection with a cheap call, whose params are short.
    if (!this.cheap) this.params = "";
    this.key = undefined;
    if (carrier === undefined || carrier.hasSent) return;
    carrier.abort();
    this.onError("aborted");
  }

  onAnswer(kind: "result" | "error", bytes: Buffer, start: number, end: number): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    const body = bodyOf(bytes, start, end);
    this.#dispatcher.onAnswer(this, kind, body);
    this.#first.onAnswer(kind, body);
    if (this.#others === undefined) return;
    for (const waiter of this.#others) waiter.onAnswer(kind, body);
  }

  onError(reason: NodeFailure, cause?: UpstreamFailure): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#dispatcher.onError(this, reason);
    this.#first.onError(reason, cause);
    if (this.#others === undefined) return;
    for (const waiter of this.#others) waiter.onError(reason, cause);
  }
}

/** Methods that read a block itself. All other methods with a block hash read the state at that block. */
const readsBlock: ReadonlySet<string> = new Set([
  "chain_getBlock",
  "chain_getHeader",
  "archive_v1_header",
  "archive_v1_body",
]);

/** Returns undefined if the call does not name a block. `params`: valid JSON text, or an empty string for none. */
function blockOfCall(method: Method, params: string): BlockOfCall | undefined {
  if (params === "" || params === "[]") return undefined;
  if (method.lifetime === "height") {
    const number = readNumber(elementOf(params, 0));
    return number === undefined ? undefined : { hash: undefined, number, needsState: false };
  }
  if (method.hashParam < 0) return undefined;
  const element = elementOf(params, method.hashParam);
  if (element === undefined || !isBlockHash(element)) return undefined;
  const hash = element.slice(1, -1).toLowerCase();
  return { hash, number: undefined, needsState: !readsBlock.has(method.name) };
}
