/**
 * Sends the request of a completion and receives its answer. Subclasses send the answer to the client in different
 * ways.
 */
import type { Reply } from "sluice-gateway/plugin";
import type { AnswerReader, InferenceCall, Offer } from "sluice-gateway/services";
import { runGuarded } from "sluice-gateway/toolkit";
import type { Completion } from "./api.ts";
import { failureReply } from "./error-reply.ts";

/** Resolves the answer of the surface. Undefined after a stream, or if the client has disconnected. */
type ResolveReply = (reply: Reply | undefined | Promise<undefined>) => void;

/**
 * Receives the answer of a worker. Its callbacks are called from sockets, where nothing catches errors. An error fails
 * this exchange only.
 */
export abstract class CompletionReader implements AnswerReader {
  protected abstract readonly streamed: boolean;
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
    const { x, request } = this.completion;
    const { api, promptBytes, imageTokens, maxTokens, maxAnswerBytes, session } = request;
    const { streamed } = this;
    const headers = x.upstreamHeaders.length === 0 ? undefined : x.upstreamHeaders;
    const limits = { maxTokens, maxAnswerBytes };
    const sent = { api, body, streamed, promptBytes, imageTokens, session, headers, ...limits };
    this.call = offer.send(sent, this);
    x.onAbort = this;
  }

  abstract onChoice(bytes: Buffer, start: number, end: number): void;
  abstract onRead(): void;

  onEnd(...ended: Parameters<AnswerReader["onEnd"]>): void {
    this.guard(() => this.ended(...ended));
  }

  /** Overridden for answers that fail after they have begun. */
  onError(...[failure, , attempt]: Parameters<AnswerReader["onError"]>): void {
    this.guard(() => {
      const { api, x } = this.completion;
      x.onAbort = undefined;
      this.resolve(failureReply(api, x, failure, attempt));
    });
  }

  protected abstract ended(...ended: Parameters<AnswerReader["onEnd"]>): void;

  /** Called when the client has disconnected. */
  abstract aborted(): void;

  protected guard(run: () => void): void {
    runGuarded(run, (error) => this.fail(error));
  }

  /** Ends the exchange after an exception, which is a bug. */
  fail(error: unknown): void {
    this.completion.x.onAbort = undefined;
    this.reject(error);
    this.call?.abort();
  }
}

/**
 * Runs a completion. Resolves to a Reply if nothing was sent, and to undefined after a stream or if the client has
 * disconnected.
 */
export function complete(
  Reader: new (...args: ConstructorParameters<typeof CompletionReader>) => CompletionReader,
  completion: Completion,
  body: Buffer,
  offer: Offer,
): Promise<Reply | undefined> {
  return new Promise((resolve, reject) => {
    new Reader(completion, resolve, reject).begin(body, offer);
  });
}
