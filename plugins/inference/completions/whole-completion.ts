/** A completion in one piece. */
import type { Reply } from "sluice-gateway/plugin";
import type { AnswerReader, InferenceResult, WholeMessage } from "sluice-gateway/services";
import { settle, settleClientLeft } from "./completion.ts";
import { CompletionReader } from "./completion-reader.ts";
import { failureReply } from "./error-reply.ts";

export class WholeCompletion extends CompletionReader {
  readonly streamed = false;

  /** Not called, because the answer is in one piece. */
  onChoice(): void {}
  onRead(): void {}

  /** Called from the worker's socket. An error here fails this exchange only. */
  onEnd(result: InferenceResult, message: WholeMessage | undefined): void {
    try {
      this.completion.x.onAbort = undefined;
      this.resolve(this.#reply(result, message));
    } catch (error) {
      this.reject(error);
    }
  }

  #reply(result: InferenceResult, message: WholeMessage | undefined): Reply {
    const { completion } = this;
    const { renderer } = completion;
    const usedMilliCu = settle(completion, result);
    return {
      status: 200,
      headers: ["content-type", "application/json", ...(renderer.headers ?? [])],
      body: renderer.whole(completion, message, { result, usedMilliCu }),
    };
  }

  onError(...[failure, , attempt]: Parameters<AnswerReader["onError"]>): void {
    const { api, x } = this.completion;
    x.onAbort = undefined;
    this.resolve(failureReply(api, x, failure, attempt));
  }

  aborted(): void {
    this.resolve(settleClientLeft(this.completion, this.call));
  }
}
