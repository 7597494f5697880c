/** A JSON-RPC batch: its calls run side by side, a few at a time, and their answers come back in request order. */
import type { CallReport, CallReporter } from "../../../src/called.ts";
import type { LedgerRpc } from "../../../src/services/ledger.ts";
import { arrayOf, type Body } from "./body.ts";
import type { Calls } from "./calls.ts";
import { errorResponse, nodeResponse } from "./envelope.ts";
import type { Waiter } from "./flight.ts";
import type { Lane } from "./lane.ts";
import type { NodeFailure } from "./node.ts";

export type BatchItem =
  /** The gateway's own response. */
  | { readonly kind: "fixed"; readonly response: string; readonly refusal: CallReport }
  | {
      readonly kind: "call";
      /** JSON text. */
      readonly id: string;
      readonly lane: Lane;
      readonly params: string;
    };

type BatchCall = Extract<BatchItem, { kind: "call" }>;
type Line = LedgerRpc["lines"][number];

export class Batch implements LedgerRpc {
  readonly costMilli: number;
  readonly lines: Line[] = [];
  readonly #items: readonly BatchItem[];
  readonly #calls: Calls;
  readonly #parallel: number;
  readonly #responses: Body[];
  /** How each item has ended. */
  readonly #reports: CallReport[] = [];
  #caller: { readonly clientLeft: boolean } | undefined;
  #next = 0;
  #running = 0;
  #lastFailure: NodeFailure | undefined;
  #resolve: ((body: Body) => void) | undefined;

  /** Without the notifications, at least one item. `parallel`: calls that wait for an answer at once. */
  constructor(items: readonly BatchItem[], calls: Calls, parallel: number) {
    this.#items = items;
    this.#calls = calls;
    this.#parallel = parallel;
    this.#responses = Array.from({ length: items.length }, () => "");
    let cost = 0;
    for (const item of items) if (item.kind === "call") cost += item.lane.method.cuMilli;
    this.costMilli = cost;
  }

  get failure(): NodeFailure | undefined {
    return this.lines.length === 0 ? this.#lastFailure : undefined;
  }

  run(caller?: { readonly clientLeft: boolean }): Body | Promise<Body> {
    this.#caller = caller;
    if (this.#advance()) return arrayOf(this.#responses);
    return new Promise((resolve) => {
      this.#resolve = resolve;
    });
  }

  report(to: CallReporter, refusedWith?: string): void {
    if (refusedWith === undefined) return this.#reports.forEach((report) => to.called(report));
    for (const item of this.#items) {
      const report = item.kind === "call" ? item.lane.reports.result : item.refusal;
      to.called({ ...report, code: refusedWith });
    }
  }

  /** A call that was waited for has ended. `body` is the batch's own. */
  ended(index: number, response: Body, lane: Lane, ending: keyof Lane["reports"]): void {
    this.#running--;
    this.#responses[index] = response;
    this.#reports.push(lane.reports[ending]);
    if (ending !== "failed") this.lines.push(...lane.lines);
    if (this.#advance()) this.#resolve?.(arrayOf(this.#responses));
  }

  noteFailure(reason: NodeFailure): void {
    this.#lastFailure = reason;
  }

  /** Begins what may begin; true when nothing is left to wait for. */
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
      this.#reports.push(call.lane.reports.failed);
      return;
    }
    const body = this.#calls.ask(call.lane, call.params, new Place(this, index, call));
    if (body === undefined) {
      this.#running++;
      return;
    }
    this.#responses[index] = nodeResponse(call.id, "result", body);
    this.lines.push(...call.lane.lines);
    this.#reports.push(call.lane.reports.result);
  }
}

/** Waits for the answer to one item of a batch. */
class Place implements Waiter {
  readonly #batch: Batch;
  readonly #index: number;
  readonly #call: BatchCall;

  constructor(batch: Batch, index: number, call: BatchCall) {
    this.#batch = batch;
    this.#index = index;
    this.#call = call;
  }

  answered(kind: "result" | "error", body: Body): void {
    const { id, lane } = this.#call;
    this.#batch.ended(this.#index, nodeResponse(id, kind, body), lane, kind);
  }

  failed(reason: NodeFailure): void {
    this.#batch.noteFailure(reason);
    const { id, lane } = this.#call;
    this.#batch.ended(this.#index, errorResponse(id, "internal"), lane, "failed");
  }
}
