/**
 * One request on its way to a worker, and to another where the first fails before its answer has begun: until then
 * nothing is owed, and nobody has seen any of it.
 *
 * Everything here runs behind a worker's socket, a timer or a microtask. What goes wrong ends this call and nothing
 * else.
 */
import type {
  AnswerReader,
  InferenceCall,
  InferenceFailure,
  InferenceRequest,
  InferenceResult,
  TokenUsage,
  WholeMessage,
} from "../../../src/services/networks.ts";
import type { Network } from "./network.ts";
import type { Price } from "../../../src/price.ts";
import { isOverLimit, limitsOf, type RequestLimits } from "./request-limits.ts";
import type {
  AttemptedCall,
  AttemptedWorker,
  AttemptFailure,
  RunningAttempt,
} from "./worker-route.ts";
import { countUsage, isWithin, type Produced } from "./token-usage.ts";
import type { Worker } from "./worker.ts";

/** The first worker and two more. */
const maxAttempts = 3;
/** How long a worker may take to report the usage of an answer whose client has left (decisions.md section 3). */
const usageReportMs = 2_000;
const nothing = Buffer.alloc(0);
/** The last choice of a stream that is ended at its cap. */
const capReached = Buffer.from('{"index":0,"delta":{},"finish_reason":"length"}');
/** The reader of an answer whose client has left. */
const noReader: AnswerReader = { choice() {}, arrived() {}, ended() {}, failed() {} };

/** A call whose client has left, until the worker has reported its usage or the time is up. */
interface Leaving {
  readonly resolve: (result: InferenceResult | undefined) => void;
  readonly timer: Disposable;
  /** What a stream had brought when the client left. */
  readonly produced: Produced | undefined;
}

export class NetworkCall implements InferenceCall, AttemptedCall {
  request: InferenceRequest;
  readonly network: Network;
  readonly modelId: string;
  readonly #limits: RequestLimits;
  readonly #since: number;
  #reader: AnswerReader;
  readonly #tried: Worker[] = [];
  #attempt: RunningAttempt | undefined;
  /** The price when the worker was chosen: what is polled later is for later answers. */
  #price: Price | undefined;
  /** The reader has been given something: what fails now has failed for good. */
  #hasBegun = false;
  #hasToken = false;
  #choices = 0;
  #leaving: Leaving | undefined;
  #hasEnded = false;
  /** What to report when no worker is left. */
  #failure: InferenceFailure = "unavailable";
  #finishReason: string | undefined;

  constructor(modelId: string, network: Network, request: InferenceRequest, reader: AnswerReader) {
    this.modelId = modelId;
    this.network = network;
    this.request = request;
    this.#limits = limitsOf(request, network.config.maxOutputTokens);
    this.#since = network.callMetrics.now();
    this.#reader = reader;
    // Not before the caller has the call in its hands.
    queueMicrotask(() => this.#next());
  }

  pause(): void {
    if (this.#leaving === undefined) this.#attempt?.pause();
  }

  resume(): void {
    this.#attempt?.resume();
  }

  abort(): InferenceResult | undefined {
    if (this.#hasEnded || this.#leaving !== undefined) return undefined;
    const isOwed = this.#hasBegun || this.#attempt?.hasRequest === true;
    this.#end("client_left");
    this.#attempt?.abandon();
    return isOwed ? this.#result() : undefined;
  }

  leave(): Promise<InferenceResult | undefined> {
    const attempt = this.#attempt;
    const isReported = attempt?.reported !== undefined;
    if (this.#hasEnded || attempt === undefined || !attempt.hasRequest || isReported) {
      return Promise.resolve(this.abort());
    }
    if (this.#leaving !== undefined) return Promise.resolve(undefined);
    const { promise, resolve } = Promise.withResolvers<InferenceResult | undefined>();
    this.#reader = noReader;
    this.#leaving = {
      resolve,
      timer: this.network.callMetrics.after(usageReportMs, () => this.#left(true)),
      produced: this.request.streamed ? { ...attempt.produced } : undefined,
    };
    attempt.wrapUp();
    return promise;
  }

  // What the attempt reports.

  choice(bytes: Buffer, start: number, end: number): void {
    if (this.#hasEnded) return;
    const attempt = this.#attempt;
    if (!this.#hasBegun) this.#begin();
    if (!this.#hasToken && (attempt?.produced.chunks ?? 0) > 0) this.#firstToken();
    this.#choices++;
    if (attempt !== undefined && isOverLimit(attempt.produced, this.#choices, this.#limits)) {
      return this.#endAtCap(attempt);
    }
    try {
      this.#reader.choice(bytes, start, end);
    } catch (error) {
      this.#readerBroke(error);
    }
  }

  arrived(): void {
    if (!this.#hasBegun || this.#hasEnded) return;
    try {
      this.#reader.arrived();
    } catch (error) {
      this.#readerBroke(error);
    }
  }

  complete(message: WholeMessage | undefined): void {
    if (this.#hasEnded) return;
    if (this.#leaving !== undefined) return this.#left(true);
    this.#end("");
    this.#ended(message);
  }

  failed(worker: AttemptedWorker, failure: AttemptFailure): void {
    if (this.#hasEnded) return;
    const final = judge(worker, failure);
    // A worker that refused has had nothing of the request.
    if (this.#leaving !== undefined) return this.#left(this.#hasBegun);
    if (this.#hasBegun) return this.#fail(failure.kind === "timedOut" ? "timedOut" : "broken");
    if (final !== undefined) return this.#fail(final);
    if (failure.kind === "timedOut") this.#failure = "timedOut";
    this.#next();
  }

  /** Nobody else will be asked. A prompt may be long, and its answer take minutes: it is not held meanwhile. */
  #begin(): void {
    this.#hasBegun = true;
    this.request = { ...this.request, body: nothing };
  }

  #firstToken(): void {
    this.#hasToken = true;
    this.network.callMetrics.firstToken(this.modelId, this.#since);
  }

  #next(): void {
    if (this.#hasEnded) return;
    try {
      if (!this.#sendToAnother()) this.#fail(this.#failure);
    } catch (error) {
      this.network.callMetrics.log.error({ err: error }, "a request could not be sent to a worker");
      this.#attempt?.abandon();
      this.#fail("unavailable");
    }
  }

  /** False when no worker is left. */
  #sendToAnother(): boolean {
    const more = this.#tried.length < maxAttempts;
    // As it is now: a worker of the offer may be gone, and its server closed.
    const model = more ? this.network.models.get(this.modelId) : undefined;
    const worker = model?.choose(this.#tried);
    if (model === undefined || worker === undefined) return false;
    this.#tried.push(worker);
    this.#price = model.priceOf(worker);
    this.#attempt = worker.route.attempt(this, worker);
    this.#attempt.begin();
    return true;
  }

  // How it ends.

  #end(why: Parameters<Network["callMetrics"]["ended"]>[2]): void {
    this.#hasEnded = true;
    this.network.callMetrics.ended(this.modelId, this.#since, why);
  }

  #ended(message: WholeMessage | undefined): void {
    const result = this.#result();
    try {
      if (result === undefined) this.#reader.failed("unavailable", undefined);
      else this.#reader.ended(result, message);
    } catch (error) {
      this.#logBroken(error);
    }
  }

  #fail(failure: InferenceFailure): void {
    if (this.#hasEnded) return;
    this.#end(failure);
    const result = this.#hasBegun ? this.#result() : undefined;
    try {
      this.#reader.failed(failure, result);
    } catch (error) {
      this.#logBroken(error);
    }
  }

  /** The worker writes on beyond what was asked for: it is stopped, and its answer ends as at any other cap. */
  #endAtCap(attempt: RunningAttempt): void {
    this.network.callMetrics.streamCapped(attempt.worker, this.#limits);
    this.#finishReason = "length";
    if (this.#leaving !== undefined) return this.#left(true);
    this.#end("");
    attempt.abandon();
    try {
      this.#reader.choice(capReached, 0, capReached.length);
    } catch (error) {
      return this.#logBroken(error);
    }
    this.#ended(undefined);
  }

  /** The client left some time ago. */
  #left(isOwed: boolean): void {
    const leaving = this.#leaving;
    if (leaving === undefined) return;
    this.#leaving = undefined;
    leaving.timer[Symbol.dispose]();
    this.#end("client_left");
    this.#attempt?.abandon();
    leaving.resolve(isOwed ? this.#result(leaving.produced) : undefined);
  }

  /** The reader threw in the middle of an answer, which is of no more use to it. */
  #readerBroke(error: unknown): void {
    this.#attempt?.abandon();
    this.#logBroken(error);
    this.#fail("broken");
  }

  #logBroken(error: unknown): void {
    const about = { err: error, network: this.network.name, model: this.modelId };
    this.network.callMetrics.log.error(about, "the reader of an answer threw");
  }

  /** What the answer has come to. `produced`: instead of all that has come. */
  #result(produced?: Produced): InferenceResult | undefined {
    const attempt = this.#attempt;
    const price = this.#price;
    if (attempt === undefined || price === undefined) return undefined;
    const usage = this.#usageOf(attempt, produced ?? attempt.produced);
    this.network.callMetrics.used(this.modelId, usage);
    this.#countUnpriced(price);
    const { pricing } = price;
    return {
      worker: { network: pricing.network, id: attempt.worker.id, pricing },
      usage,
      costMilli: price.costMilli(usage.promptTokens + usage.completionTokens),
      finishReason: this.#finishReason ?? attempt.finishReason,
    };
  }

  /** The worker's report, unless it is missing or above what was asked for. */
  #usageOf({ reported, worker }: RunningAttempt, produced: Produced): TokenUsage {
    if (reported !== undefined) {
      if (isWithin(reported, this.#limits)) return reported;
      this.network.callMetrics.implausibleUsage(worker, reported, this.#limits);
    }
    return countUsage(this.request.promptBytes, produced, this.#limits);
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
