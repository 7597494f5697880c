/** What the demo model says: the last thing that the user wrote, token by token. */
import type { ChatRequest } from "./chat-request.ts";

export interface Echo {
  /** What it thinks before it speaks; empty unless it was told to think. */
  readonly reasoning: readonly string[];
  readonly content: readonly string[];
  /** `length`: cut at `max_tokens` or at the model's own limit. */
  readonly finishReason: "stop" | "length";
  readonly usage: {
    readonly prompt_tokens: number;
    /** Reasoning included. */
    readonly completion_tokens: number;
    readonly total_tokens: number;
  };
}

/** At 20 ms a token 41 seconds: an answer that does not stream comes before anyone gives it up for dead. */
export const maxAnswerTokens = 2_048;

/** A word with the blanks before it; longer ones in pieces. Joined again they are the text. */
export function tokensOf(text: string): string[] {
  return text.match(/\s{0,12}\S{1,12}|\s{1,12}/gu) ?? [];
}

export function echo({ messages, thinking, maxTokens }: ChatRequest): Echo {
  const said = messages.findLast(({ role }) => role === "user") ?? messages.at(-1);
  const words = tokensOf(said?.text ?? "");
  const thoughts = thinking ? tokensOf(thoughtAbout(words.length)) : [];
  const limit = Math.min(maxTokens ?? maxAnswerTokens, maxAnswerTokens);
  const reasoning = thoughts.slice(0, limit);
  const content = words.slice(0, limit - reasoning.length);
  const completion = reasoning.length + content.length;
  const prompt = messages.reduce((sum, { text }) => sum + tokensOf(text).length, 0);
  return {
    reasoning,
    content,
    finishReason: completion < thoughts.length + words.length ? "length" : "stop",
    usage: {
      prompt_tokens: prompt,
      completion_tokens: completion,
      total_tokens: prompt + completion,
    },
  };
}

function thoughtAbout(tokens: number): string {
  return `The user wrote ${tokens} tokens. This model repeats what it is told, so it will say them again.`;
}
