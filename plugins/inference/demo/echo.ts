/** The answer of the demo model: the last message of the user, token by token, or a call of a tool. */
import type { ChatRequest } from "./chat-request.ts";
import type { ToolCall } from "./file-task.ts";

export interface Echo {
  /** Empty unless the request enables thinking. */
  readonly reasoning: readonly string[];
  readonly content: readonly string[];
  readonly toolCall: ToolCall | undefined;
  /** `length` if the answer was cut at `max_tokens` or at the limit of the model. */
  readonly finishReason: "stop" | "length" | "tool_calls";
  readonly usage: {
    readonly prompt_tokens: number;
    /** Includes the reasoning. */
    readonly completion_tokens: number;
    readonly total_tokens: number;
  };
}

/**
 * Maximum number of tokens in an answer. At 20 ms per token this takes 41 seconds, so an answer in one piece arrives
 * before clients give up.
 */
export const maxAnswerTokens = 2_048;

/** Splits text into words with the preceding blanks, and long words in pieces. Joined, they are the text again. */
export function tokensOf(text: string): string[] {
  return text.match(/\s{0,12}\S{1,12}|\s{1,12}/gu) ?? [];
}

export function echo({ messages, thinking, maxTokens, toolCall }: ChatRequest): Echo {
  const last = messages.findLast(({ role }) => role === "user") ?? messages.at(-1);
  const result = messages.at(-1)?.role === "tool" ? messages.at(-1) : undefined;
  const said =
    result === undefined ? (last?.text ?? "") : `All done. The tool answered: ${result.text}`;
  const words = tokensOf(toolCall?.arguments ?? said);
  const thoughts = thinking ? tokensOf(thoughtAbout(words.length)) : [];
  const limit = Math.min(maxTokens ?? maxAnswerTokens, maxAnswerTokens);
  const reasoning = thoughts.slice(0, limit);
  const answer = words.slice(0, limit - reasoning.length);
  const completion = reasoning.length + answer.length;
  const isCut = completion < thoughts.length + words.length;
  const prompt = messages.reduce((sum, { text }) => sum + tokensOf(text).length, 0);
  return {
    reasoning,
    content: toolCall === undefined ? answer : [],
    toolCall: isCut ? undefined : toolCall,
    finishReason: isCut ? "length" : toolCall === undefined ? "stop" : "tool_calls",
    usage: {
      prompt_tokens: prompt,
      completion_tokens: completion,
      total_tokens: prompt + completion,
    },
  };
}

function thoughtAbout(tokens: number): string {
  return `The user wrote ${tokens} tokens. This model echoes the last message of the user, so it repeats them.`;
}
