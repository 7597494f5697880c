/** A completion in one piece. */
import type { Reply } from "sluice-gateway/plugin";
import type { AnswerReader } from "sluice-gateway/services";
import { settle, settleClientLeft } from "./completion.ts";
import { CompletionReader } from "./completion-reader.ts";

export class WholeCompletion extends CompletionReader {
  readonly streamed = false;

  /** Not called, because the answer is in one piece. */
  onChoice(): void {}
  onRead(): void {}

  protected override ended(...ended: Parameters<AnswerReader["onEnd"]>): void {
    this.completion.x.onAbort = undefined;
    this.completion.x.dropBody();
    this.resolve(this.#reply(...ended));
  }

  #reply(...[result, message, native]: Parameters<AnswerReader["onEnd"]>): Reply {
    const { completion } = this;
    const { renderer } = completion;
    const usedMilliCu = settle(completion, result);
    const charged = { result, usedMilliCu };
    const own = [...(renderer.headers ?? []), ...(this.call?.headers ?? [])];
    const headers = ["content-type", "application/json", ...own];
    if (native === undefined || renderer.native === undefined) {
      return { status: 200, headers, body: renderer.whole(completion, message, charged) };
    }
    return { status: 200, headers, pieces: renderer.native(completion, native, charged) };
  }

  aborted(): void {
    this.resolve(settleClientLeft(this.completion, this.call));
  }
}
