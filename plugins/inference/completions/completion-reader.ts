/**
 * Sends the request of a completion and receives its answer. Subclasses send the answer to the client in different
 * ways.
 */
import type { Reply } from "sluice-gateway/plugin";
import type {
  AnswerReader,
  InferenceCall,
  InferenceResult,
  Offer,
  WholeMessage,
} from "sluice-gateway/services";
import type { Completion } from "./api.ts";

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
    const { promptBytes, imageTokens, maxTokens, session } = request;
    const { streamed } = this;
    const headers = x.upstreamHeaders.length === 0 ? undefined : x.upstreamHeaders;
    const sent = { body, streamed, promptBytes, imageTokens, maxTokens, session, headers };
    this.call = offer.send(sent, this);
    x.onAbort = this;
  }

  abstract onChoice(bytes: Buffer, start: number, end: number): void;
  abstract onRead(): void;
  abstract onEnd(result: InferenceResult, message: WholeMessage | undefined): void;
  abstract onError(...failed: Parameters<AnswerReader["onError"]>): void;
  /** Called when the client has disconnected. */
  abstract aborted(): void;
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
