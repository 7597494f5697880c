/**
 * One call to the nodes, shared by all who wait for its answer (single flight). The call continues even if a waiting
 * client disconnects. If it fails, it fails for all waiters: the pool has already retried it, and one more attempt per
 * waiter would only add to the load that made it fail.
 */
import type { Http1Carrier } from "sluice-gateway/internal/http";
import type { UpstreamFailure } from "sluice-gateway/plugin";
import { bodyOf, type JsonBody } from "./json-body.ts";
import type { MethodState } from "./method-state.ts";
import type { BlockOfCall, NodeFailure, NodeRequest } from "./node-pool.ts";
import type { JoinableCall, CallListener } from "./call-listener.ts";
import { isBlockHash, readNumber } from "./finality.ts";
import { elementOf } from "./json-part.ts";
import type { Method } from "./whitelist.ts";

/** Longer params (in characters) name many keys, whose proof is not cheap. */
const maxCheapParams = 1_024;

export interface SingleFlight {
  onAnswer(sharedCall: SharedCall, kind: "result" | "error", body: JsonBody): void;
  onError(sharedCall: SharedCall, reason: NodeFailure): void;
  /** No listener needs the answer any more, so no further one may join the call. */
  onReleased(sharedCall: SharedCall): void;
}

export class SharedCall implements NodeRequest, JoinableCall {
  readonly methodState: MethodState;
  params: string;
  /** Cache key of the params. Undefined if the call is not shared and its answer is not cached. */
  key: string | undefined;
  /** The pool's epoch and finalized block when the call was sent. */
  readonly epoch: number;
  readonly finalized: number | undefined;
  readonly #singleFlight: SingleFlight;
  readonly #first: CallListener;
  #others: CallListener[] | undefined;
  #carrier: Http1Carrier | undefined;
  #released = 0;
  #isReleased = false;
  #hasEnded = false;

  constructor(
    methodState: MethodState,
    params: string,
    key: string | undefined,
    known: { readonly epoch: number; readonly finalized: number | undefined },
    singleFlight: SingleFlight,
    waiter: CallListener,
  ) {
    this.methodState = methodState;
    this.params = params;
    this.key = key;
    this.epoch = known.epoch;
    this.finalized = known.finalized;
    this.#singleFlight = singleFlight;
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

  onCarrier(carrier: Http1Carrier | undefined): void {
    this.#carrier = carrier;
  }

  release(): void {
    if (++this.#released <= (this.#others?.length ?? 0) || this.#hasEnded) return;
    const carrier = this.#carrier;
    this.#isReleased = true;
    this.#singleFlight.onReleased(this);
    this.params = "";
    this.key = undefined;
    if (carrier === undefined || carrier.hasSent) return;
    carrier.abort();
    this.onError("aborted");
  }

  onAnswer(kind: "result" | "error", bytes: Buffer, start: number, end: number): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    const body = bodyOf(bytes, start, end);
    this.#singleFlight.onAnswer(this, kind, body);
    this.#first.onAnswer(kind, body);
    if (this.#others === undefined) return;
    for (const waiter of this.#others) waiter.onAnswer(kind, body);
  }

  onError(reason: NodeFailure, cause?: UpstreamFailure): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#singleFlight.onError(this, reason);
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
