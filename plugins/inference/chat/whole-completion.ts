/** A completion in one piece. */
import type { Reply } from "sluice-gateway/plugin";
import type {
  AnswerReader,
  InferenceResult,
  ToolCall,
  WholeMessage,
} from "sluice-gateway/services";
import { settle, settleClientLeft, usageOf } from "./completion.ts";
import { CompletionReader } from "./completion-reader.ts";
import { failureReply } from "./errors.ts";

const headers: readonly string[] = ["content-type", "application/json"];

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
    const { id, created, request } = this.completion;
    const usedMilliCu = settle(this.completion, result);
    const { content = "", reasoningContent, toolCalls = [], logprobs } = message ?? {};
    const { passes } = request;
    const calls = passes.includes("tools") ? toolCalls : [];
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
            content: content === "" && calls.length > 0 ? null : content,
            ...(reasoningContent !== undefined && { reasoning_content: reasoningContent }),
            ...(calls.length > 0 && { tool_calls: calls.map(toolCallMember) }),
          },
          ...(passes.includes("logprobs") && { logprobs: logprobs ?? null }),
          finish_reason: result.finishReason ?? "stop",
        },
      ],
      usage: usageOf(result, usedMilliCu),
    };
    return { status: 200, headers, body: JSON.stringify(body) };
  }

  onError(...[failure, , attempt]: Parameters<AnswerReader["onError"]>): void {
    this.completion.x.onAbort = undefined;
    this.resolve(failureReply(this.completion.x, failure, attempt));
  }

  aborted(): void {
    this.resolve(settleClientLeft(this.completion, this.call));
  }
}

function toolCallMember({ id, name, arguments: text }: ToolCall): object {
  return { id, type: "function", function: { name, arguments: text } };
}
