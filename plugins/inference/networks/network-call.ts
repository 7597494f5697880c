/**
 * One call of a model. If the first worker fails before its answer has begun, the request is sent to another one. Until
 * then nothing is charged and the reader has received nothing.
 *
 * All callbacks run from a worker's socket, a timer or a microtask. An error in them ends this call only.
 */
import type {
  AnswerReader,
  AttemptedCall,
  AttemptedWorker,
  AttemptFailure,
  InferenceCall,
  InferenceFailure,
  InferenceRequest,
  InferenceResult,
  NetworkWorker,
  Price,
  PartialAnswer,
  RunningAttempt,
  TokenUsage,
  WholeMessage,
} from "sluice-gateway/services";
import type { UpstreamFailure } from "sluice-gateway/plugin";
import { runGuarded } from "sluice-gateway/internal/toolkit";
import {
  believedUsage,
  estimateUsage,
  isOverLimit,
  limitsOf,
  type RequestLimits,
} from "./token-usage.ts";
import type { ServingNetwork } from "./serving-network.ts";

/** The first worker and two retries. */
const maxAttempts = 3;
/** Time for a worker to report the usage of an answer whose client has disconnected (decisions.md section 3). */
const usageReportMs = 2_000;
const emptyBody = Buffer.alloc(0);
/** The last choice of a stream that the gateway ends at its token limit. */
const capReached = Buffer.from('{"index":0,"delta":{},"finish_reason":"length"}');
const noReader: AnswerReader = { onChoice() {}, onRead() {}, onEnd() {}, onError() {} };

interface PendingLeave {
  readonly resolve: (result: InferenceResult | undefined) => void;
  readonly timer: Disposable;
  /** The part of a stream that had arrived when the client disconnected. */
  readonly produced: PartialAnswer | undefined;
}

export class NetworkCall implements InferenceCall, AttemptedCall {
  request: InferenceRequest;
  readonly network: ServingNetwork;
  readonly modelId: string;
  readonly #limits: RequestLimits;
  readonly #since: number;
  #reader: AnswerReader;
  readonly #tried: NetworkWorker[] = [];
  #attempt: RunningAttempt | undefined;
  /** Prices that are polled after the worker was chosen apply to later answers. */
  #price: Price | undefined;
  /** True after the reader has received something. A failure is then final. */
  #hasBegun = false;
  #hasToken = false;
  #choices = 0;
  #leaving: PendingLeave | undefined;
  #hasEnded = false;
  /** The failure to report if no worker is left. */
  #failure: InferenceFailure = "unavailable";
  #attemptFailure: AttemptFailure | undefined;
  #finishReason: string | undefined;

  constructor(
    modelId: string,
    network: ServingNetwork,
    request: InferenceRequest,
    reader: AnswerReader,
  ) {
    this.modelId = modelId;
    this.network = network;
    this.request = request;
    this.#limits = limitsOf(request, network.config.maxOutputTokens);
    this.#since = network.callMetrics.now();
    this.#reader = reader;
    // Deferred, so that the constructor returns before the first callback.
    queueMicrotask(() => this.#next());
  }

  get headers(): readonly string[] | undefined {
    return this.#attempt?.headers;
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
    this.#attempt?.abort();
    return isOwed ? this.#result() : undefined;
  }

  abortWithUsage(): Promise<InferenceResult | undefined> {
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
      timer: this.network.deps.clock.after(usageReportMs, () => this.#endLeft(true)),
      produced: this.request.streamed ? { ...attempt.produced } : undefined,
    };
    attempt.wrapUp();
    return promise;
  }

  onChoice(bytes: Buffer, start: number, end: number): void {
    if (this.#hasEnded) return;
    const attempt = this.#attempt;
    if (!this.#hasBegun) this.#begin();
    if (!this.#hasToken && (attempt?.produced.chunks ?? 0) > 0) this.#firstToken();
    this.#choices++;
    if (attempt !== undefined && isOverLimit(attempt.produced, this.#choices, this.#limits)) {
      return this.#endAtCap(attempt);
    }
    try {
      this.#reader.onChoice(bytes, start, end);
    } catch (error) {
      this.#readerBroke(error);
    }
  }

  onRead(): void {
    if (!this.#hasBegun || this.#hasEnded) return;
    try {
      this.#reader.onRead();
    } catch (error) {
      this.#readerBroke(error);
    }
  }

  onEnd(message: WholeMessage | undefined, native?: Buffer): void {
    if (this.#hasEnded) return;
    if (this.#leaving !== undefined) return this.#endLeft(true);
    this.#end("");
    this.#ended(message, native);
  }

  onError(worker: AttemptedWorker, failure: AttemptFailure): void {
    if (this.#hasEnded) return;
    const cause = { ...failure.cause, backend: worker.id };
    this.network.countFailure(cause);
    this.#attemptFailure = { ...failure, cause };
    const { failedCheck, refusal, isFinal = false } = failure;
    const isOfGateway = failedCheck !== undefined || refusal !== undefined;
    const final = isOfGateway ? "unavailable" : finalFailure(worker, cause, this.request);
    // A worker that refused the request has not processed any of it.
    if (this.#leaving !== undefined) return this.#endLeft(this.#hasBegun);
    const isTimeOut = cause.kind === "answerTimeout" || cause.kind === "idleTimeout";
    if (this.#hasBegun) return this.#fail(isTimeOut ? "timedOut" : "broken");
    if (final !== undefined) return this.#fail(final);
    if (isTimeOut) this.#failure = "timedOut";
    if (isFinal) this.#fail(this.#failure);
    else this.#next();
  }

  /**
   * From now on the request is not retried. The body is released: a prompt may be long, and its answer take minutes.
   */
  #begin(): void {
    this.#hasBegun = true;
    this.request = { ...this.request, body: emptyBody };
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
      this.network.deps.log.error({ err: error }, "a request could not be sent to a worker");
      this.#attempt?.abort();
      this.#fail("unavailable");
    }
  }

  /** Returns false if no worker is left. */
  #sendToAnother(): boolean {
    const more = this.#tried.length < maxAttempts;
    // Looked up again, because a worker of the offer may have been removed and its server closed.
    const model = more ? this.network.models.get(this.modelId) : undefined;
    const worker = model?.choose(this.#tried, this.request.session);
    if (model === undefined || worker === undefined) return false;
    this.#tried.push(worker);
    this.#price = model.priceOf(worker);
    this.#attempt = worker.route.attempt(this, worker);
    this.#attempt.begin();
    return true;
  }

  #end(why: Parameters<ServingNetwork["callMetrics"]["ended"]>[2]): void {
    this.#hasEnded = true;
    this.network.callMetrics.ended(this.modelId, this.#since, why);
  }

  #ended(message: WholeMessage | undefined, native?: Buffer): void {
    const result = this.#result();
    this.#notify(() => {
      if (result === undefined) this.#reader.onError("unavailable", undefined);
      else this.#reader.onEnd(result, message, native);
    });
  }

  #fail(failure: InferenceFailure): void {
    if (this.#hasEnded) return;
    this.#end(failure);
    const result = this.#hasBegun ? this.#result() : undefined;
    this.#notify(() => this.#reader.onError(failure, result, this.#attemptFailure));
  }

  /** Stops a worker that produces more than was requested. The answer ends as at any other token limit. */
  #endAtCap(attempt: RunningAttempt): void {
    this.network.callMetrics.streamCapped(attempt.worker, this.#limits);
    this.#finishReason = "length";
    if (this.#leaving !== undefined) return this.#endLeft(true);
    this.#end("");
    attempt.abort();
    try {
      if (this.request.api === undefined) this.#reader.onChoice(capReached, 0, capReached.length);
    } catch (error) {
      return this.#logBroken(error);
    }
    this.#ended(undefined);
  }

  #endLeft(isOwed: boolean): void {
    const leaving = this.#leaving;
    if (leaving === undefined) return;
    this.#leaving = undefined;
    leaving.timer[Symbol.dispose]();
    this.#end("client_left");
    this.#attempt?.abort();
    leaving.resolve(isOwed ? this.#result(leaving.produced) : undefined);
  }

  #readerBroke(error: unknown): void {
    this.#attempt?.abort();
    this.#logBroken(error);
    this.#fail("broken");
  }

  #notify(run: () => void): void {
    runGuarded(run, (error) => this.#logBroken(error));
  }

  #logBroken(error: unknown): void {
    const about = { err: error, network: this.network.name, model: this.modelId };
    this.network.deps.log.error(about, "the reader of an answer threw");
  }

  /** `produced`: what to charge, if not everything that has arrived. */
  #result(produced?: PartialAnswer): InferenceResult | undefined {
    const attempt = this.#attempt;
    const price = attempt?.price ?? this.#price;
    if (attempt === undefined || price === undefined) return undefined;
    const { pricing } = price;
    const hasClasses = pricing.classes !== undefined;
    const usage = this.#usageOf(attempt, produced ?? attempt.produced, hasClasses);
    if (this.request.api !== "count_tokens") {
      this.network.callMetrics.used(this.modelId, usage, attempt.worker.id);
      this.#countUnpriced(price);
    }
    return {
      worker: { network: pricing.network, id: attempt.worker.id, pricing },
      usage,
      costMilliCu: price.costMilliCu(usage),
      finishReason: this.#finishReason ?? attempt.finishReason,
    };
  }

  #usageOf(
    { reported, worker }: RunningAttempt,
    produced: PartialAnswer,
    hasClasses: boolean,
  ): TokenUsage {
    if (reported !== undefined) {
      const believed = believedUsage(reported, this.#limits, hasClasses);
      if (believed !== undefined) return believed;
      this.network.callMetrics.implausibleUsage(worker, reported, this.#limits);
    }
    return estimateUsage(this.request.promptBytes, produced, this.#limits, hasClasses);
  }

  #countUnpriced({ pricing }: Price): void {
    const { unpriced } = this.network;
    if (Number(pricing.tokenUsdRate ?? 0) === 0) unpriced.rate.add(1);
    if (Number(pricing.pricePerTokenNano) === 0) unpriced.price.add(1);
  }
}

/** Returns the failure that every worker would report, else undefined. Also updates the health of the worker. */
function finalFailure(
  worker: AttemptedWorker,
  cause: UpstreamFailure,
  { api }: InferenceRequest,
): InferenceFailure | undefined {
  const { kind, status } = cause;
  if (status === 400 || status === 413 || status === 422) return "rejected";
  if (status === 404 || (status === 501 && api !== undefined)) return "notServed";
  // A healthy worker can fail in an API that its model does not have. It must stay available for chat.
  const isOptional = api === "embeddings" || api === "count_tokens";
  const isOfApi = isOptional && (kind === "status" || kind === "garbage");
  // 429 is not a fault of the worker, and it ends soon.
  if (status !== 429 && !isOfApi) worker.failed(cause);
  return undefined;
}
