import type { Reply } from "sluice-gateway/plugin";
import type { AnswerReader, InferenceCall, InferenceResult, Offer } from "sluice-gateway/services";
import { runGuarded } from "sluice-gateway/internal/toolkit";
import type { Completion } from "./api.ts";
import { settle } from "./completion.ts";
import { errorReply } from "./error-reply.ts";
import {
  errorOfFailure,
  failureOutcome,
  type CompletionError,
  type FailureOutcome,
} from "./errors.ts";
import { endSpan } from "./span.ts";

/** The reply is undefined after a stream, or if the client has disconnected. */
type ResolveReply = (reply: Reply | undefined | Promise<undefined>) => void;

/**
 * Receives the answer of a worker. Its callbacks are called from sockets, where nothing catches errors. An error fails
 * this exchange only.
 */
export abstract class CompletionReader implements AnswerReader {
  protected readonly completion: Completion;
  protected readonly resolve: ResolveReply;
  protected readonly reject: (error: unknown) => void;
  protected call: InferenceCall | undefined;

  constructor(completion: Completion, resolve: ResolveReply, reject: (error: unknown) => void) {
    this.completion = completion;
    this.resolve = resolve;
    this.reject = reject;
  }

  begin(body: Buffer, offer: Offer): void {
    const { x, request, span } = this.completion;
    const { api, stream: streamed, promptBytes, imageTokens, session } = request;
    const { maxTokens, maxAnswerBytes } = request;
    const headers = [...x.upstreamHeaders, ...(span?.headers ?? [])];
    const limits = { maxTokens, maxAnswerBytes };
    const sent = { api, body, streamed, promptBytes, imageTokens, session, headers, ...limits };
    this.call = offer.send(sent, this);
    x.onAbort = this;
  }

  abstract onChoice(bytes: Buffer, start: number, end: number): void;
  abstract onRead(): void;

  onEnd(...ended: Parameters<AnswerReader["onEnd"]>): void {
    this.guard(() => {
      this.ended(...ended);
      endSpan(this.completion, ended[0]);
    });
  }

  onError(...[failure, result, attempt]: Parameters<AnswerReader["onError"]>): void {
    this.guard(() => {
      const { api, x, request } = this.completion;
      x.note("upstreamFailure", attempt?.cause);
      const error = errorOfFailure(failure, attempt);
      const outcome = failureOutcome(failure);
      endSpan(this.completion, result, failure);
      if (result !== undefined && request.stream) return this.broke(error, result, outcome);
      x.onAbort = undefined;
      const reply = errorReply(api, x, error, attempt?.retryAfterSeconds);
      this.resolve(error.code === "INVALID_REQUEST" ? reply : { ...reply, outcome });
    });
  }

  protected abstract ended(...ended: Parameters<AnswerReader["onEnd"]>): void;

  /** Called when a streamed answer has failed after its beginning. */
  protected abstract broke(
    error: CompletionError,
    result: InferenceResult,
    outcome: FailureOutcome,
  ): void;

  abstract aborted(): void;

  /** Charges the tokens that the worker has read and produced for a client that has disconnected. */
  protected async leave(): Promise<undefined> {
    const result = await this.call?.abortWithUsage();
    endSpan(this.completion, result, "aborted");
    if (result !== undefined) settle(this.completion, result, "clientLeft");
  }

  protected get headers(): readonly string[] {
    return [...(this.completion.renderer.headers ?? []), ...(this.call?.headers ?? [])];
  }

  protected guard(run: () => void): void {
    runGuarded(run, (error) => this.fail(error));
  }

  /** Ends the exchange after an exception, which is a bug. */
  fail(error: unknown): void {
    this.completion.x.onAbort = undefined;
    this.reject(error);
    endSpan(this.completion, this.call?.abort(), "aborted");
  }
}
