/**
 * One request on its way to a worker, and on to another where the first fails before an answer has begun: nothing has
 * been produced then that anybody would owe, and nobody has seen any of it.
 */
import type {
  AnswerReader,
  InferenceCall,
  InferenceFailure,
  InferenceRequest,
  InferenceResult,
  WholeMessage,
} from "../services/networks.ts";
import type { Network } from "./network.ts";
import type { Price } from "../price.ts";
import type { AttemptedCall, AttemptedWorker, AttemptFailure, RunningAttempt } from "./route.ts";
import type { Worker } from "./worker.ts";

/** The first worker and two more. */
const mostAttempts = 3;
const nothing = Buffer.alloc(0);

export class Call implements InferenceCall, AttemptedCall {
  request: InferenceRequest;
  readonly network: Network;
  readonly modelId: string;
  readonly #reader: AnswerReader;
  readonly #tried: Worker[] = [];
  #attempt: RunningAttempt | undefined;
  /** The price when the worker was chosen: what is polled later is for later answers. */
  #price: Price | undefined;
  /** The reader has been told something: what fails now has failed for good. */
  #begun = false;
  #over = false;
  /** What to report when no worker is left. */
  #failure: InferenceFailure = "unavailable";

  constructor(modelId: string, network: Network, request: InferenceRequest, reader: AnswerReader) {
    this.modelId = modelId;
    this.network = network;
    this.request = request;
    this.#reader = reader;
    // Not before the caller has the call in its hands.
    queueMicrotask(() => this.#next());
  }

  pause(): void {
    this.#attempt?.pause();
  }

  resume(): void {
    this.#attempt?.resume();
  }

  abort(): InferenceResult | undefined {
    if (this.#over) return undefined;
    this.#over = true;
    this.#attempt?.abandon();
    return this.#begun ? this.#result() : undefined;
  }

  // What the attempt reports.

  choice(bytes: Buffer, start: number, end: number): void {
    if (!this.#begun) this.#begin();
    this.#reader.choice(bytes, start, end);
  }

  arrived(): void {
    if (this.#begun && !this.#over) this.#reader.arrived();
  }

  complete(message: WholeMessage | undefined): void {
    this.#over = true;
    const result = this.#result();
    if (result !== undefined) this.#reader.ended(result, message);
  }

  failed(worker: AttemptedWorker, failure: AttemptFailure): void {
    if (this.#over) return;
    const final = judge(worker, failure);
    if (this.#begun) return this.#fail(failure.kind === "timedOut" ? "timedOut" : "broken");
    if (final !== undefined) return this.#fail(final);
    if (failure.kind === "timedOut") this.#failure = "timedOut";
    this.#next();
  }

  /** Nobody else will be asked. A prompt may be long, and its answer take minutes: it is not held meanwhile. */
  #begin(): void {
    this.#begun = true;
    this.request = { ...this.request, body: nothing };
  }

  #next(): void {
    if (this.#over) return;
    const more = this.#tried.length < mostAttempts;
    // As it is now: a worker of the offer may be gone, and its server closed.
    const model = more ? this.network.models.get(this.modelId) : undefined;
    const worker = model?.choose(this.#tried);
    if (model === undefined || worker === undefined) return this.#fail(this.#failure);
    this.#tried.push(worker);
    this.#price = model.priceOf(worker);
    this.#attempt = worker.route.attempt(this, worker);
    this.#attempt.begin();
  }

  #fail(failure: InferenceFailure): void {
    this.#over = true;
    this.#reader.failed(failure, this.#begun ? this.#result() : undefined);
  }

  /** What the answer has come to. */
  #result(): InferenceResult | undefined {
    const attempt = this.#attempt;
    const price = this.#price;
    if (attempt === undefined || price === undefined) return undefined;
    const { usage, finishReason } = attempt;
    this.#countUnpriced(price);
    const { pricing } = price;
    return {
      worker: { network: pricing.network, id: attempt.worker.id, pricing },
      usage,
      costMilli: price.costMilli(usage.promptTokens + usage.completionTokens),
      finishReason,
    };
  }

  #countUnpriced({ pricing }: Price): void {
    const { unpriced } = this.network;
    if (Number(pricing.tokenUsdRate ?? 0) === 0) unpriced.rate.add(1);
    if (Number(pricing.pricePerTokenNano) === 0) unpriced.price.add(1);
  }
}

/** What every worker would say to this request; undefined: another may do better. The worker's health follows. */
function judge(worker: AttemptedWorker, failure: AttemptFailure): InferenceFailure | undefined {
  if (failure.kind !== "refused") {
    worker.failed(failure.kind === "unreachable");
    return undefined;
  }
  const { status } = failure;
  if (status === 400 || status === 413 || status === 422) return "rejected";
  if (status === 404) return "notServed";
  // Too many requests are no fault of the worker's, and pass soon.
  if (status !== 429) worker.failed(false);
  return undefined;
}
