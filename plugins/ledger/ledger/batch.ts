/**
 * A JSON-RPC batch. Its calls run concurrently, a few at a time, and their responses are returned in request order. When
 * the responses have reached the maximum size of an answer, no further call is sent.
 */
import type {
  CallReport,
  CallReporter,
  Memory,
  MemoryHold,
  UpstreamFailure,
} from "sluice-gateway/plugin";
import type { LedgerRpc, RpcCaller } from "sluice-gateway/services";
import { arrayOf, copyBody, type Enclosed, type JsonAnswer, type JsonBody } from "./json-body.ts";
import type { CallDispatcher } from "./call-dispatcher.ts";
import { errorResponse, failureResponse, refusal, sharedResponse } from "./envelope.ts";
import type { CallListener, JoinableCall } from "./call-listener.ts";
import type { MethodState } from "./method-state.ts";
import type { NodeFailure } from "./node-pool.ts";

export type BatchItem =
  /** The gateway's own response. */
  | { readonly kind: "fixed"; readonly response: string; readonly refusal: CallReport }
  | {
      readonly kind: "call";
      /** JSON text. */
      readonly id: string;
      readonly methodState: MethodState;
      params: string;
    };

export interface BatchLimits {
  /** Maximum number of calls in flight. */
  readonly parallel: number;
  readonly bytes: number;
}

/** Size of an error response without its id, rounded up. */
const errorBytes = 128;
/** Smaller answers are not counted, because they cost less than the count. */
const uncountedBytes = 64 * 1024;

type BatchCall = Extract<BatchItem, { kind: "call" }>;
type Line = LedgerRpc["lines"][number];

export class Batch implements LedgerRpc {
  readonly costMilliCu: number;
  readonly lines: Line[] = [];
  readonly #items: readonly BatchItem[];
  readonly #calls: CallDispatcher;
  readonly #limits: BatchLimits;
  readonly #responses: (string | Enclosed)[];
  readonly #reports: CallReport[] = [];
  #caller: RpcCaller | undefined;
  #memory: Memory | undefined;
  #held: MemoryHold | undefined;
  /** Size of the answer if all calls without a response are refused. */
  #bytes = 2;
  #isFull = false;
  #next = 0;
  readonly #listeners = new Set<BatchItemListener>();
  #isReleased = false;
  #running = 0;
  #lastFailure: NodeFailure | undefined;
  #resolve: ((answer: JsonAnswer) => void) | undefined;

  /** `items`: at least one, without the notifications. */
  constructor(items: readonly BatchItem[], calls: CallDispatcher, limits: BatchLimits) {
    this.#items = items;
    this.#calls = calls;
    this.#limits = limits;
    this.#responses = Array.from({ length: items.length }, () => "");
    let cost = 0;
    for (const item of items) {
      if (item.kind === "call") {
        cost += item.methodState.method.cuMilli;
        this.#bytes += item.id.length + errorBytes;
      } else this.#bytes += item.response.length + 1;
    }
    this.costMilliCu = cost;
  }

  get failure(): NodeFailure | undefined {
    return this.lines.length === 0 ? this.#lastFailure : undefined;
  }

  run(caller?: RpcCaller, memory?: Memory): JsonAnswer | Promise<JsonAnswer> {
    this.#caller = caller;
    this.#memory = memory;
    if (this.#advance()) return this.#end();
    return new Promise((resolve) => {
      this.#resolve = resolve;
    });
  }

  release(): void {
    this.#isReleased = true;
    for (const item of this.#items) if (item.kind === "call") item.params = "";
    for (const { waitsFor } of this.#listeners) waitsFor?.release();
  }

  refuse(error: string): string {
    const responses = this.#items.map((item) =>
      item.kind === "call" ? refusal(item.id, error) : item.response,
    );
    return `[${responses.join(",")}]`;
  }

  report(to: CallReporter, refusedWith?: string): void {
    if (refusedWith === undefined) return this.#reports.forEach((report) => to.called(report));
    for (const item of this.#items) {
      const report = item.kind === "call" ? item.methodState.reports.result : item.refusal;
      to.called({ ...report, code: refusedWith });
    }
  }

  /** The work of the node is charged, even if there is no room for its answer. */
  onAnswer(ended: BatchItemListener, kind: "result" | "error", body: JsonBody): void {
    const { index, call } = ended;
    this.#listeners.delete(ended);
    this.lines.push(...call.methodState.lines);
    this.#keep(index, call, kind, body, copyBody);
    this.#onEnded();
  }

  onFailure(ended: BatchItemListener, reason: NodeFailure, cause?: UpstreamFailure): void {
    const { index, call } = ended;
    const { id, methodState } = call;
    this.#listeners.delete(ended);
    this.#lastFailure = reason;
    this.#responses[index] = failureResponse(id, reason);
    const report = methodState.reports[reason === "disagreement" ? reason : "failed"];
    this.#reports.push(cause === undefined ? report : { ...report, upstreamFailure: cause });
    this.#onEnded();
  }

  #onEnded(): void {
    this.#running--;
    if (this.#advance()) this.#resolve?.(this.#end());
  }

  #end(): JsonAnswer {
    this.#held?.[Symbol.dispose]();
    return arrayOf(this.#responses);
  }

  /** `own`: returns a body that may be kept. */
  #keep(
    index: number,
    { id, methodState }: BatchCall,
    kind: "result" | "error",
    body: JsonBody,
    own: (body: JsonBody) => JsonBody,
  ): void {
    if (this.#hasRoom(body.length)) {
      this.#responses[index] = sharedResponse(id, kind, own(body));
      this.#reports.push(methodState.reports[kind]);
    } else {
      this.#responses[index] = errorResponse(id, "internal");
      this.#reports.push(methodState.reports.failed);
    }
  }

  #hasRoom(more: number): boolean {
    const bytes = this.#bytes + more;
    if (this.#isFull || bytes > this.#limits.bytes || !this.#mayHold(bytes)) this.#isFull = true;
    else this.#bytes = bytes;
    return !this.#isFull;
  }

  #mayHold(bytes: number): boolean {
    if (bytes <= uncountedBytes) return true;
    this.#held ??= this.#memory?.hold(this.#caller?.facts?.caller?.id ?? "", "result");
    return this.#held?.resize(bytes) !== false;
  }

  /** Returns true if all items have their responses. */
  #advance(): boolean {
    while (this.#next < this.#items.length && this.#running < this.#limits.parallel) {
      const index = this.#next++;
      const item = this.#items[index];
      if (item?.kind === "call") this.#begin(index, item);
      else if (item !== undefined) {
        this.#responses[index] = item.response;
        this.#reports.push(item.refusal);
      }
    }
    return this.#running === 0 && this.#next === this.#items.length;
  }

  #begin(index: number, call: BatchCall): void {
    if (this.#isFull || this.#isReleased || this.#caller?.clientLeft === true) {
      if (!this.#isFull) this.#lastFailure = "aborted";
      this.#responses[index] = errorResponse(call.id, "internal");
      this.#reports.push(call.methodState.reports.failed);
      return;
    }
    const group = this.#caller?.facts?.caller?.group;
    const listener = new BatchItemListener(this, index, call, group);
    const body = this.#calls.call(call.methodState, call.params, listener);
    if (body === undefined) {
      this.#listeners.add(listener);
      this.#running++;
      return;
    }
    this.lines.push(...call.methodState.lines);
    this.#keep(index, call, "result", body, (shared) => shared);
  }
}

class BatchItemListener implements CallListener {
  readonly caller: string | undefined;
  readonly index: number;
  readonly call: BatchCall;
  waitsFor: JoinableCall | undefined;
  readonly #batch: Batch;

  constructor(batch: Batch, index: number, call: BatchCall, caller: string | undefined) {
    this.caller = caller;
    this.#batch = batch;
    this.index = index;
    this.call = call;
  }

  onAnswer(kind: "result" | "error", body: JsonBody): void {
    this.#batch.onAnswer(this, kind, body);
  }

  onError(reason: NodeFailure, cause?: UpstreamFailure): void {
    this.#batch.onFailure(this, reason, cause);
  }
}
