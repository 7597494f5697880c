/** A completion in one piece. */
import type { Reply } from "sluice-gateway/plugin";
import type { AnswerReader } from "sluice-gateway/services";
import { settle } from "./completion.ts";
import { CompletionReader } from "./completion-reader.ts";

export class WholeCompletion extends CompletionReader {
  // Not called, because the answer is in one piece.
  onChoice(): void {}
  onRead(): void {}
  protected override broke(): void {}

  protected override ended(...ended: Parameters<AnswerReader["onEnd"]>): void {
    this.completion.x.onAbort = undefined;
    this.completion.x.dropBody();
    this.resolve(this.#reply(...ended));
  }

  #reply(...[result, message, native]: Parameters<AnswerReader["onEnd"]>): Reply {
    const { completion } = this;
    const { renderer } = completion;
    const charged = { result, usedMilliCu: settle(completion, result) };
    const headers = ["content-type", "application/json", ...this.headers];
    if (native === undefined || renderer.native === undefined) {
      return { status: 200, headers, body: renderer.whole(completion, message, charged) };
    }
    return { status: 200, headers, pieces: renderer.native(completion, native, charged) };
  }

  aborted(): void {
    this.resolve(this.leave());
  }
}
