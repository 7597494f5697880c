/** A completion in one piece. */
import type {
  AnswerReader,
  InferenceCall,
  InferenceFailure,
  InferenceResult,
  Offer,
  Reply,
  WholeMessage,
} from "sluice-gateway/plugin";
import { settle, type Completion } from "./completion.ts";
import { chatError, codeOf } from "./errors.ts";
import { usageOf } from "./usage.ts";

const headers: readonly string[] = ["content-type", "application/json"];

/** Resolves to undefined when the client has left. */
export function wholeCompletion(
  completion: Completion,
  body: Buffer,
  offer: Offer,
): Promise<Reply | undefined> {
  return new Promise((resolve) => {
    const reader = new WholeCompletion(completion, resolve);
    const { promptChars, maxTokens } = completion.request;
    reader.begin(offer.send({ body, streamed: false, promptChars, maxTokens }, reader));
  });
}

class WholeCompletion implements AnswerReader {
  readonly #completion: Completion;
  readonly #resolve: (reply: Reply | undefined) => void;
  #call: InferenceCall | undefined;

  constructor(completion: Completion, resolve: (reply: Reply | undefined) => void) {
    this.#completion = completion;
    this.#resolve = resolve;
  }

  begin(call: InferenceCall): void {
    this.#call = call;
    this.#completion.x.onAbort = this;
  }

  /** Nothing comes in pieces. */
  choice(): void {}
  arrived(): void {}

  ended(result: InferenceResult, message: WholeMessage | undefined): void {
    const { x, id, created, request } = this.#completion;
    x.onAbort = undefined;
    settle(this.#completion, result);
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
      usage: usageOf(result),
    };
    this.#resolve({ status: 200, headers, body: JSON.stringify(body) });
  }

  failed(failure: InferenceFailure): void {
    this.#completion.x.onAbort = undefined;
    const code = codeOf[failure];
    const outcome = failure === "timedOut" ? "timedOut" : "upstreamFailed";
    this.#resolve(chatError(code, code === "INVALID_REQUEST" ? {} : { outcome }));
  }

  /** The client has left: the worker stops. It has shown nothing of what it may have produced. */
  aborted(): void {
    settle(this.#completion, this.#call?.abort(), "clientLeft");
    this.#resolve(undefined);
  }
}
