/** A JSON-RPC body is parsed and priced before anything is sent to a node. */
import type { RpcItem } from "sluice-gateway/internal/http";
import {
  readJsonRpc,
  type CallReport,
  type CallReporter,
  type UpstreamFailure,
} from "sluice-gateway/plugin";
import type { LedgerRpc, RpcCaller } from "sluice-gateway/services";
import { piecesOf, type JsonAnswer, type JsonBody } from "./json-body.ts";
import { Batch, type BatchItem } from "./batch.ts";
import type { CallDispatcher } from "./call-dispatcher.ts";
import {
  errorResponse,
  failureResponse,
  nodeResponse,
  refusal,
  sharedResponse,
} from "./envelope.ts";
import type { CallListener, JoinableCall } from "./call-listener.ts";
import type { MethodState } from "./method-state.ts";
import type { NodeFailure } from "./node-pool.ts";

/** gateway.md, "Per-call and per-request limits". */
const maxBatchItems = 50;

type Line = LedgerRpc["lines"][number];
const noLines: readonly Line[] = [];

const fixed = (answer: string | undefined, report: CallReport | undefined): LedgerRpc => ({
  costMilliCu: 0,
  lines: noLines,
  failure: undefined,
  run: () => answer,
  refuse: () => answer,
  release() {},
  report(to) {
    if (report !== undefined) to.called(report);
  },
});

function refusalOf(name: string, code: string): CallReport {
  return { kind: "node", name, isListed: false, code };
}

const parseError = fixed(errorResponse("null", "parse"), refusalOf("", "PARSE_ERROR"));
const malformed = refusalOf("", "INVALID_REQUEST");
const invalidRequest = fixed(errorResponse("null", "invalid"), malformed);
const noResponse = fixed(undefined, undefined);

export interface RpcContext {
  readonly listed: ReadonlyMap<string, MethodState>;
  readonly calls: CallDispatcher;
  readonly batchParallel: number;
  readonly batchBytes: number;
}

export function readRpc(body: Buffer, context: RpcContext): LedgerRpc {
  const read = readJsonRpc(body, maxBatchItems);
  if (read.kind === "single") return readSingle(read.item, context);
  if (read.kind === "batch") return readBatch(read.items, context);
  return read.kind === "malformed" ? parseError : invalidRequest;
}

type AnsweredItem = Exclude<RpcItem, { readonly kind: "notification" }>;

function refused(item: AnsweredItem): Extract<BatchItem, { readonly kind: "fixed" }> {
  const isCall = item.kind === "call";
  const response = errorResponse(item.id, isCall ? "notAllowed" : "invalid");
  const report = isCall ? refusalOf(item.method, "METHOD_NOT_ALLOWED") : malformed;
  return { kind: "fixed", response, refusal: report };
}

function readSingle(item: RpcItem, { listed, calls }: RpcContext): LedgerRpc {
  if (item.kind === "notification") return noResponse;
  const methodState = item.kind === "call" ? listed.get(item.method) : undefined;
  if (item.kind === "call" && methodState !== undefined)
    return new SingleCall(item.id, methodState, item.params, calls);
  const { response, refusal: report } = refused(item);
  return fixed(response, report);
}

function readBatch(
  items: readonly RpcItem[],
  { listed, calls, batchParallel, batchBytes }: RpcContext,
): LedgerRpc {
  const answered: BatchItem[] = [];
  for (const item of items) {
    if (item.kind === "notification") continue;
    const methodState = item.kind === "call" ? listed.get(item.method) : undefined;
    if (item.kind !== "call" || methodState === undefined) answered.push(refused(item));
    else answered.push({ kind: "call", id: item.id, methodState, params: item.params });
  }
  if (answered.length === 0) return noResponse;
  return new Batch(answered, calls, { parallel: batchParallel, bytes: batchBytes });
}

/** One call. It is its own waiter, so that an answer from the cache costs neither a promise nor a closure. */
class SingleCall implements LedgerRpc, CallListener {
  readonly costMilliCu: number;
  lines: readonly Line[] = noLines;
  failure: NodeFailure | undefined;
  #cause: UpstreamFailure | undefined;
  caller: string | undefined;
  #ending: keyof MethodState["reports"] = "failed";
  readonly #id: string;
  readonly #methodState: MethodState;
  #params: string;
  readonly #calls: CallDispatcher;
  #resolve: ((answer: JsonAnswer) => void) | undefined;
  waitsFor: JoinableCall | undefined;

  constructor(id: string, methodState: MethodState, params: string, calls: CallDispatcher) {
    this.costMilliCu = methodState.method.cuMilli;
    this.#id = id;
    this.#methodState = methodState;
    this.#params = params;
    this.#calls = calls;
  }

  run(caller?: RpcCaller): JsonAnswer | Promise<JsonAnswer> {
    this.caller = caller?.facts?.caller?.group;
    const body = this.#calls.call(this.#methodState, this.#params, this);
    if (body === undefined) {
      return new Promise((resolve) => {
        this.#resolve = resolve;
      });
    }
    this.lines = this.#methodState.lines;
    this.#ending = "result";
    const response = sharedResponse(this.#id, "result", body);
    return typeof response === "string" ? response : piecesOf(response);
  }

  release(): void {
    this.#params = "";
    this.waitsFor?.release();
  }

  refuse(error: string): string {
    return refusal(this.#id, error);
  }

  onAnswer(kind: "result" | "error", body: JsonBody): void {
    this.lines = this.#methodState.lines;
    this.#ending = kind;
    this.#resolve?.(nodeResponse(this.#id, kind, body));
  }

  report(to: CallReporter, refusedWith?: string): void {
    const { reports } = this.#methodState;
    if (this.#cause !== undefined) {
      to.called({ ...reports[this.#ending], upstreamFailure: this.#cause });
    } else if (refusedWith === undefined) to.called(reports[this.#ending]);
    else to.called({ ...reports.result, code: refusedWith });
  }

  onError(reason: NodeFailure, cause?: UpstreamFailure): void {
    this.failure = reason;
    this.#cause = cause;
    if (reason === "disagreement") this.#ending = reason;
    this.#resolve?.(failureResponse(this.#id, reason));
  }
}
