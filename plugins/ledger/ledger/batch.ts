/** A JSON-RPC batch. Its calls run concurrently, a few at a time, and their responses are returned in request order. */
import type { CallReport, CallReporter, UpstreamFailure } from "sluice-gateway/plugin";
import type { LedgerRpc } from "sluice-gateway/services";
import { arrayOf, type JsonBody } from "./json-body.ts";
import type { CallDispatcher } from "./call-dispatcher.ts";
import { errorResponse, failureResponse, nodeResponse, refusal } from "./envelope.ts";
import type { CallListener } from "./call-listener.ts";
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
      readonly params: string;
    };

type BatchCall = Extract<BatchItem, { kind: "call" }>;
type Line = LedgerRpc["lines"][number];

export class Batch implements LedgerRpc {
  readonly costMilliCu: number;
  readonly lines: Line[] = [];
  readonly #items: readonly BatchItem[];
  readonly #calls: CallDispatcher;
  readonly #parallel: number;
  readonly #responses: JsonBody[];
  /** One report per completed item. */
  readonly #reports: CallReport[] = [];
  #caller: { readonly clientLeft: boolean } | undefined;
  #next = 0;
  #running = 0;
  #lastFailure: NodeFailure | undefined;
  #resolve: ((body: JsonBody) => void) | undefined;

  /** `items`: at least one, without the notifications. `parallel`: maximum number of calls in flight. */
  constructor(items: readonly BatchItem[], calls: CallDispatcher, parallel: number) {
    this.#items = items;
    this.#calls = calls;
    this.#parallel = parallel;
    this.#responses = Array.from({ length: items.length }, () => "");
    let cost = 0;
    for (const item of items) if (item.kind === "call") cost += item.methodState.method.cuMilli;
    this.costMilliCu = cost;
  }

  get failure(): NodeFailure | undefined {
    return this.lines.length === 0 ? this.#lastFailure : undefined;
  }

  run(caller?: { readonly clientLeft: boolean }): JsonBody | Promise<JsonBody> {
    this.#caller = caller;
    if (this.#advance()) return arrayOf(this.#responses);
    return new Promise((resolve) => {
      this.#resolve = resolve;
    });
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

  /** Called when a call in flight has ended. `response`: its JSON-RPC response, which the batch keeps. */
  onEnd(
    index: number,
    response: JsonBody,
    methodState: MethodState,
    ending: keyof MethodState["reports"],
    upstreamFailure?: UpstreamFailure,
  ): void {
    this.#running--;
    this.#responses[index] = response;
    const report = methodState.reports[ending];
    this.#reports.push(upstreamFailure === undefined ? report : { ...report, upstreamFailure });
    if (ending === "result" || ending === "error") this.lines.push(...methodState.lines);
    if (this.#advance()) this.#resolve?.(arrayOf(this.#responses));
  }

  noteFailure(reason: NodeFailure): void {
    this.#lastFailure = reason;
  }

  /** Starts as many calls as the limit allows. Returns true if all items have their responses. */
  #advance(): boolean {
    while (this.#next < this.#items.length && this.#running < this.#parallel) {
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
    if (this.#caller?.clientLeft === true) {
      this.#lastFailure = "aborted";
      this.#responses[index] = errorResponse(call.id, "internal");
      this.#reports.push(call.methodState.reports.failed);
      return;
    }
    const body = this.#calls.call(
      call.methodState,
      call.params,
      new BatchItemListener(this, index, call),
    );
    if (body === undefined) {
      this.#running++;
      return;
    }
    this.#responses[index] = nodeResponse(call.id, "result", body);
    this.lines.push(...call.methodState.lines);
    this.#reports.push(call.methodState.reports.result);
  }
}

/** Waits for the answer to one item of a batch. */
class BatchItemListener implements CallListener {
  readonly #batch: Batch;
  readonly #index: number;
  readonly #call: BatchCall;

  constructor(batch: Batch, index: number, call: BatchCall) {
    this.#batch = batch;
    this.#index = index;
    this.#call = call;
  }

  onAnswer(kind: "result" | "error", body: JsonBody): void {
    const { id, methodState } = this.#call;
    this.#batch.onEnd(this.#index, nodeResponse(id, kind, body), methodState, kind);
  }

  onError(reason: NodeFailure, cause?: UpstreamFailure): void {
    this.#batch.noteFailure(reason);
    const { id, methodState } = this.#call;
    const ending = reason === "disagreement" ? reason : "failed";
    this.#batch.onEnd(this.#index, failureResponse(id, reason), methodState, ending, cause);
  }
}
