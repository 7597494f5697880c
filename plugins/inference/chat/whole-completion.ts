/** A completion in one piece. */
import type { Reply } from "sluice-gateway/plugin";
import type {
  AnswerReader,
  InferenceCall,
  InferenceFailure,
  InferenceResult,
  Offer,
  WholeMessage,
} from "sluice-gateway/services";
import {
  settle,
  settleClientLeft,
  usageOf,
  type Completion,
  type ResolveReply,
} from "./completion.ts";
import { failureReply } from "./errors.ts";

const headers: readonly string[] = ["content-type", "application/json"];

/** Resolves to undefined if the client has left. */
export function wholeCompletion(
  completion: Completion,
  body: Buffer,
  offer: Offer,
): Promise<Reply | undefined> {
  return new Promise((resolve, reject) => {
    const reader = new WholeCompletion(completion, resolve, reject);
    const { promptBytes, maxTokens } = completion.request;
    reader.begin(offer.send({ body, streamed: false, promptBytes, maxTokens }, reader));
  });
}

class WholeCompletion implements AnswerReader {
  readonly #completion: Completion;
  readonly #resolve: ResolveReply;
  readonly #reject: (error: unknown) => void;
  #call: InferenceCall | undefined;

  constructor(completion: Completion, resolve: ResolveReply, reject: (error: unknown) => void) {
    this.#completion = completion;
    this.#resolve = resolve;
    this.#reject = reject;
  }

  begin(call: InferenceCall): void {
    this.#call = call;
    this.#completion.x.onAbort = this;
  }

  /** Not called, because the answer is in one piece. */
  choice(): void {}
  arrived(): void {}

  /** Called from the worker's socket. An error here fails this exchange only. */
  ended(result: InferenceResult, message: WholeMessage | undefined): void {
    try {
      this.#completion.x.onAbort = undefined;
      this.#resolve(this.#reply(result, message));
    } catch (error) {
      this.#reject(error);
    }
  }

  #reply(result: InferenceResult, message: WholeMessage | undefined): Reply {
    const { id, created, request } = this.#completion;
    const usedMilli = settle(this.#completion, result);
    const reasoning = message?.reasoningContent;
    const body = {
      id,
      object: "chat.completion",
      created,
      model: request.model,
      choices: [
        {
          index: 0,
          message: {
            role: "assistant",
            content: message?.content ?? "",
            ...(reasoning !== undefined && { reasoning_content: reasoning }),
          },
          finish_reason: result.finishReason ?? "stop",
        },
      ],
      usage: usageOf(result, usedMilli),
    };
    return { status: 200, headers, body: JSON.stringify(body) };
  }

  failed(failure: InferenceFailure): void {
    this.#completion.x.onAbort = undefined;
    this.#resolve(failureReply(failure));
  }

  aborted(): void {
    this.#resolve(settleClientLeft(this.#completion, this.#call));
  }
}
