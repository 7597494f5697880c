/**
 * One request over a verified session. The answer is passed on as it is decrypted, and the bill is checked at the end.
 */
import type { UpstreamFailure } from "sluice-gateway/plugin";
import {
  createPrice,
  type AttemptedCall,
  type AttemptedWorker,
  type AttemptFailure,
  type Price,
  type RunningAttempt,
  type TokenUsage,
} from "sluice-gateway/services";
import { parseJson } from "sluice-gateway/internal/toolkit";
import {
  ConfidentialError,
  type Answer,
  type ChatRequest,
  type FinalAnswer,
} from "../client/client.ts";
import { AnswerBuilder } from "../enclave-workers/answer-builder.ts";
import { countsOf } from "../protocol/text-frames.ts";
import { billFault, priceText } from "./bill.ts";
import type { ReservedSession, SealedSessions } from "./sealed-sessions.ts";
import { failedCheckOf, isVerdict, verifiedHeader } from "./verification.ts";

/** Codes of an enclave's error that every other enclave would repeat. */
const requestErrors: ReadonlySet<string | undefined> = new Set([
  "INVALID_REQUEST",
  "LIMIT_EXCEEDED",
]);

export class SealedAttempt implements RunningAttempt {
  readonly worker: AttemptedWorker;
  finishReason: string | undefined = undefined;
  reported: TokenUsage | undefined = undefined;
  price: Price | undefined = undefined;
  headers: readonly string[] | undefined = undefined;
  hasRequest = false;
  readonly #call: AttemptedCall;
  readonly #sessions: SealedSessions;
  readonly #answer: AnswerBuilder;
  readonly #cancel = new AbortController();
  #session: ReservedSession | undefined;
  /** Resolves when the client can receive more. Undefined while it can. */
  #paused: PromiseWithResolvers<void> | undefined;
  #hasEnded = false;

  constructor(call: AttemptedCall, worker: AttemptedWorker, sessions: SealedSessions) {
    this.#call = call;
    this.#answer = new AnswerBuilder(call);
    this.worker = worker;
    this.#sessions = sessions;
  }

  get produced(): RunningAttempt["produced"] {
    return this.#answer.produced;
  }

  begin(): void {
    this.worker.load.add(1);
    this.#run()
      .catch((error: unknown) => {
        this.#sessions.deps.log.error({ err: error }, "a request over an encrypted session failed");
        void this.#session?.session.close();
        this.#fail({ cause: { kind: "internal" } });
      })
      .finally(() => this.worker.load.add(-1))
      // Only a failure of the log can arrive here.
      .catch(() => undefined);
  }

  pause(): void {
    this.#paused ??= Promise.withResolvers();
  }

  resume(): void {
    this.#paused?.resolve();
    this.#paused = undefined;
  }

  /** Cancels the answer. The enclave then signs a report of the tokens produced so far. */
  wrapUp(): void {
    this.#cancel.abort();
    this.resume();
  }

  abort(): void {
    this.#hasEnded = true;
    this.wrapUp();
  }

  async #run(): Promise<void> {
    const { request } = this.#call;
    let reserved: ReservedSession;
    try {
      reserved = await this.#sessions.reserve(request.maxTokens);
    } catch (error) {
      if (!(error instanceof ConfidentialError)) throw error;
      // Nothing of the request has been sent.
      return this.#fail(failureToOpen(error));
    }
    this.#session = reserved;
    if (this.#hasEnded) return this.#sessions.release(reserved);
    this.headers = ["x-sluice-verified", verifiedHeader(reserved.verification)];
    const answer = this.#send(reserved, request.body);
    if (answer === undefined) {
      this.#sessions.release(reserved);
      return this.#fail({ cause: { kind: "status", status: 413 } });
    }
    try {
      await this.#forward(answer);
      this.#finish(reserved, await answer.final);
      this.#sessions.release(reserved);
    } catch (error) {
      void reserved.session.close();
      if (error === this.#cancel.signal.reason) return this.#fail({ cause: { kind: "closed" } });
      if (!(error instanceof ConfidentialError)) throw error;
      const refused = refusalOf(error);
      if (refused === undefined) return this.#refuse(`answer: ${error.message}`, undefined);
      this.#record(error.message, undefined);
      this.#fail(refused);
    }
  }

  /** Returns undefined if the request is too large. */
  #send({ session }: ReservedSession, body: Buffer): Answer | undefined {
    try {
      // The surfaces write a JSON object with `messages`.
      const request = parseJson(body.toString()) as ChatRequest;
      const answer = session.chat(request, { signal: this.#cancel.signal });
      this.hasRequest = true;
      return answer;
    } catch (error) {
      if (error instanceof TypeError) return undefined;
      throw error;
    }
  }

  async #forward(answer: Answer): Promise<void> {
    const { request, network } = this.#call;
    const { idleMs, answerMs } = network.config;
    let limit = this.#limit(request.streamed ? idleMs : answerMs, "answerTimeout");
    try {
      for await (const delta of answer) {
        limit[Symbol.dispose]();
        if (!this.#hasEnded && !this.#answer.add(delta)) {
          throw new ConfidentialError("LIMIT_EXCEEDED", "the answer is too large");
        }
        await this.#paused?.promise;
        limit = this.#limit(idleMs, "idleTimeout");
      }
    } catch (error) {
      const isOfEnclave = error instanceof ConfidentialError && error.code === "REQUEST_FAILED";
      if (!isOfEnclave && !this.#cancel.signal.aborted) throw error;
    } finally {
      limit[Symbol.dispose]();
    }
  }

  /** Ends an answer that is late, and asks for its bill. */
  #limit(ms: number, kind: "answerTimeout" | "idleTimeout"): Disposable {
    return this.#sessions.deps.clock.after(ms, () => {
      this.#fail({ cause: { kind } });
      this.wrapUp();
    });
  }

  #finish(reserved: ReservedSession, final: FinalAnswer): void {
    const { report, pricing, finishReason, error, errorCode, contextExceeded } = final;
    if (report !== undefined) this.reported = { ...countsOf(report.tokens), estimated: false };
    if (pricing !== undefined) {
      const coefficient = Math.min(pricing.coefficient, report?.coefficient ?? Infinity);
      this.price = createPrice({ ...pricing, coefficient });
    }
    const fault = billFault(final, reserved.session);
    if (fault !== undefined) return this.#refuse(fault, final);
    // The gateway can cancel an answer as well, because the frame with which it asks for that is not signed.
    const isCut = finishReason === "cancel" || report?.finish === "cancel";
    if (isCut && !this.#cancel.signal.aborted) {
      return this.#refuse("answer: it was cut before its end", final);
    }
    this.#record(undefined, final);
    if (error !== undefined) {
      const isOfRequest = requestErrors.has(errorCode);
      const cause = isOfRequest
        ? ({ kind: "status", status: 400 } as const)
        : ({ kind: "unusable" } as const);
      return this.#fail({ cause, contextExceeded });
    }
    this.finishReason = finishReason;
    if (this.#hasEnded) return;
    if (!this.#cancel.signal.aborted) this.#answer.finish(finishReason);
    const message = this.#answer.whole();
    if (message === "nameless") return this.#fail({ cause: { kind: "garbage" } });
    this.#hasEnded = true;
    this.worker.succeeded();
    this.#call.onEnd(message);
  }

  /** Ends the session too, because nothing more is sent to an end that has failed a check. */
  #refuse(failedCheck: string, final: FinalAnswer | undefined): void {
    void this.#session?.session.close();
    this.#record(failedCheck, final);
    this.#fail({ cause: { kind: "unusable" }, failedCheck });
  }

  #record(failedCheck: string | undefined, final: FinalAnswer | undefined): void {
    const { record, clock } = this.#sessions.deps;
    const { prompt_tokens: promptTokens = 0, completion_tokens: completionTokens = 0 } =
      final?.usage ?? {};
    record({
      at: clock.now(),
      gateway: this.#call.network.config.url,
      model: this.#call.modelId,
      promptTokens,
      completionTokens,
      price: priceText(final?.pricing),
      rate: final?.pricing?.tokenUsdRate,
      billedMilliCu: final?.usedCUMilli,
      failedCheck,
    });
  }

  #fail(failure: AttemptFailure): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#call.onError(this.worker, { ...failure, isFinal: this.hasRequest });
  }
}

function failureToOpen(error: ConfidentialError): AttemptFailure {
  const refused = refusalOf(error);
  if (refused !== undefined) return refused;
  const { code } = error;
  if (isVerdict(error) || code === "CONNECTION_FAILED")
    return { cause: { kind: "unusable", code }, failedCheck: failedCheckOf(error) };
  return { cause: causeOf(error), retryAfterSeconds: error.retryAfterSeconds };
}

const refusals = { UNAUTHORIZED: 401, INSUFFICIENT_BALANCE: 402, RATE_LIMITED: 429 } as const;

function refusalOf({ code, retryAfterSeconds }: ConfidentialError): AttemptFailure | undefined {
  if (code !== "UNAUTHORIZED" && code !== "INSUFFICIENT_BALANCE" && code !== "RATE_LIMITED") {
    return undefined;
  }
  const cause = { kind: "status", status: refusals[code], code } as const;
  return { cause, refusal: code, retryAfterSeconds };
}

function causeOf({ code }: ConfidentialError): UpstreamFailure {
  if (code === "MODEL_NOT_AVAILABLE" || code === "NETWORK_NOT_AVAILABLE") {
    return { kind: "status", status: 404, code };
  }
  return { kind: code === "TIMEOUT" ? "answerTimeout" : "refused", code };
}
