/** Chat completions in OpenAI's wire format, the format that workers speak: choices are passed on as bytes. */
import type { ContextExceeded, ToolCall, WholeMessage } from "sluice-gateway/services";
import type {
  AnswerRenderer,
  Charged,
  CompletionApi,
  Completion,
  StreamRenderer,
} from "../completions/api.ts";
import type { CompletionError } from "../completions/errors.ts";
import { readChatRequest } from "../completions/request.ts";

const done = "data: [DONE]\n\n";
const suffix = "]}\n\n";

const renderer: AnswerRenderer = {
  whole: (completion, message, charged) => JSON.stringify(wholeOf(completion, message, charged)),
  stream: (completion) => new ChatStream(completion),
};

export const chatApi: CompletionApi = {
  method: "chat.completions",
  idPrefix: "chatcmpl-",
  read: (body, options) => ({ ...readChatRequest(body, options), renderer }),
  renderError(error) {
    const type = error.status >= 500 ? "internal_error" : "invalid_request_error";
    return { body: errorJson(error, type) };
  },
};

class ChatStream implements StreamRenderer {
  readonly encoding = "latin1";
  readonly #completion: Completion;
  readonly #prefix: string;

  constructor(completion: Completion) {
    this.#completion = completion;
    this.#prefix = Buffer.from(`data: ${this.#envelope()},"choices":[`).toString("latin1");
  }

  choice(bytes: Buffer, start: number, end: number): string {
    return this.#prefix + bytes.toString("latin1", start, end) + suffix;
  }

  end(charged: Charged): string {
    if (!this.#completion.request.includeUsage) return done;
    const usage = JSON.stringify(usageOf(charged));
    return `data: ${this.#envelope()},"choices":[],"usage":${usage}}\n\n${done}`;
  }

  /**
   * Omits `[DONE]`, so that clients do not treat the answer as complete. Agents repeat it after an error of this type.
   */
  failed(error: CompletionError): string {
    return `data: ${errorJson(error, "server_error")}\n\n`;
  }

  #envelope(): string {
    const { id, created, request } = this.#completion;
    const { model } = request;
    return JSON.stringify({ id, object: "chat.completion.chunk", created, model }).slice(0, -1);
  }
}

function wholeOf(
  { id, created, request }: Completion,
  message: WholeMessage | undefined,
  charged: Charged,
): object {
  const { content = "", refusal, reasoningContent, toolCalls = [], logprobs } = message ?? {};
  const { model, passes } = request;
  const calls = passes.includes("tools") ? toolCalls : [];
  const hasOther = calls.length > 0 || refusal !== undefined;
  return {
    id,
    object: "chat.completion",
    created,
    model,
    choices: [
      {
        index: 0,
        message: {
          role: "assistant",
          content: content === "" && hasOther ? null : content,
          ...(refusal !== undefined && { refusal }),
          ...(reasoningContent !== undefined && { reasoning_content: reasoningContent }),
          ...(calls.length > 0 && {
            tool_calls: calls.map((call, index) => toolCallMember(call, `${id}_${index}`)),
          }),
        },
        ...(passes.includes("logprobs") && { logprobs: logprobs ?? null }),
        finish_reason: charged.result.finishReason ?? "stop",
      },
    ],
    usage: usageOf(charged),
  };
}

/** `ownId`: for a call without an id, because clients need one. */
function toolCallMember({ id, name, arguments: text }: ToolCall, ownId: string): object {
  return { id: id || ownId, type: "function", function: { name, arguments: text } };
}

function usageOf({ result, usedMilliCu }: Charged): object {
  const { promptTokens, completionTokens, cachedTokens, reasoningTokens } = result.usage;
  return {
    prompt_tokens: promptTokens,
    completion_tokens: completionTokens,
    total_tokens: promptTokens + completionTokens,
    ...(cachedTokens !== undefined && { prompt_tokens_details: { cached_tokens: cachedTokens } }),
    ...(reasoningTokens !== undefined && {
      completion_tokens_details: { reasoning_tokens: reasoningTokens },
    }),
    usedCUMilli: usedMilliCu,
  };
}

/** The error is for a reply, and for the last event of a stream that broke. */
function errorJson({ code, message, contextExceeded }: CompletionError, type: string): string {
  const error =
    contextExceeded === undefined
      ? { message, type, code }
      : contextError(message, contextExceeded);
  return JSON.stringify({ error });
}

/** The error that OpenAI sends for a prompt that is too long. Clients read its code. */
function contextError(message: string, { limit, requested }: ContextExceeded): object {
  return {
    message,
    type: "invalid_request_error",
    param: "messages",
    code: "context_length_exceeded",
    max_context_tokens: limit,
    requested_tokens: requested,
  };
}
