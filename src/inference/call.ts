/**
 * One request on its way to a worker, and on to another where the first fails before its first byte: nothing has been
 * produced then that anybody would owe, and nobody has seen any of it.
 */
import type {
  AnswerReader,
  InferenceCall,
  InferenceFailure,
  InferenceRequest,
} from "../services/networks.ts";
import { Attempt } from "./attempt.ts";
import type { Model } from "./model.ts";
import type { Network } from "./network.ts";
import type { Price } from "./price.ts";
import type { Worker } from "./worker.ts";

/** The first worker and two more. */
const mostAttempts = 3;

/** How an attempt failed. `unreachable`: no connection. `refused`: the worker's own status, in `status`. */
export type AttemptFailure =
  | { readonly kind: "unreachable" | "broken" | "timedOut" }
  | { readonly kind: "refused"; readonly status: number };

export class Call implements InferenceCall {
  readonly network: Network;
  readonly request: InferenceRequest;
  readonly #model: Model;
  readonly #reader: AnswerReader;
  readonly #tried: Worker[] = [];
  #attempt: Attempt | undefined;
  /** The reader has been given a byte: what fails now has failed for good. */
  #begun = false;
  #over = false;
  /** What to report when no worker is left. */
  #failure: InferenceFailure = "unavailable";

  constructor(model: Model, network: Network, request: InferenceRequest, reader: AnswerReader) {
    this.#model = model;
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

  again(): boolean {
    const failed = this.#attempt;
    if (this.#over || failed === undefined) return false;
    failed.abandon();
    failed.worker.failed(false);
    this.#begun = false;
    this.#attempt = undefined;
    if (this.#tried.length < mostAttempts && this.#model.choose(this.#tried) !== undefined) {
      queueMicrotask(() => this.#next());
      return true;
    }
    this.#over = true;
    return false;
  }

  abort(): void {
    this.#over = true;
    this.#attempt?.abandon();
  }

  // ── what an attempt reports ───────────────────────────────────────────────────────────────────────────────────

  started(worker: Worker, streamed: boolean): void {
    const price = this.#model.priceOf(worker);
    this.#countUnpriced(price);
    this.#reader.started(
      {
        network: price.pricing.network,
        id: worker.id,
        pricing: price.pricing,
        costMilli: (tokens) => price.costMilli(tokens),
      },
      streamed,
    );
  }

  data(chunk: Buffer): void {
    this.#begun = true;
    this.#reader.data(chunk);
  }

  ended(worker: Worker): void {
    worker.succeeded();
    this.#reader.ended();
  }

  failed(worker: Worker, failure: AttemptFailure): void {
    const final = judge(worker, failure);
    if (final !== undefined || this.#begun) return this.#fail(final ?? brokenOr(failure));
    this.#failure = failure.kind === "timedOut" ? "timedOut" : this.#failure;
    this.#next();
  }

  #next(): void {
    if (this.#over) return;
    const worker = this.#tried.length < mostAttempts ? this.#model.choose(this.#tried) : undefined;
    if (worker === undefined) return this.#fail(this.#failure);
    this.#tried.push(worker);
    this.#attempt = new Attempt(this, worker);
    this.#attempt.begin();
  }

  #fail(failure: InferenceFailure): void {
    if (this.#over) return;
    this.#over = true;
    this.#reader.failed(failure);
  }

  #countUnpriced({ pricing }: Price): void {
    const { unpriced } = this.network;
    if (pricing.tokenUsdRate === undefined) unpriced.rate.add(1);
    if (Number(pricing.pricePerTokenNano) === 0) unpriced.price.add(1);
  }
}

/** What every worker would say to this request; undefined: another may do better. The worker's health follows. */
function judge(worker: Worker, failure: AttemptFailure): InferenceFailure | undefined {
  if (failure.kind !== "refused") {
    worker.failed(failure.kind === "unreachable");
    return undefined;
  }
  const { status } = failure;
  if (status === 400 || status === 413 || status === 422) return "rejected";
  if (status === 404) return "notServed";
  // Too many requests is no fault of a worker's, and passes soon.
  if (status !== 429) worker.failed(false);
  return undefined;
}

function brokenOr(failure: AttemptFailure): InferenceFailure {
  return failure.kind === "timedOut" ? "timedOut" : "broken";
}
