/** How much a request allows its worker: what it may report, and how long its stream may become. */
import type { InferenceRequest } from "../../../src/services/networks.ts";
import type { Produced, UsageLimit } from "./token-usage.ts";

/** Tokens that a chat template may put around the messages, such as a system prompt of the model's own. */
const templateTokens = 16_384;
/** No text of any length has more bytes per token on average, runs of spaces included. */
const bytesPerToken = 64;
/** Choices without content: the role, the reason why it finished, a token that is not shown. */
const choicesPerChunk = 4;

export interface RequestLimits extends UsageLimit {
  /** Chunks with content, bytes of text and choices of a stream, beyond which it is ended. */
  readonly chunks: number;
  readonly bytes: number;
  readonly choices: number;
}

/**
 * `cap`: of a request without a limit of its own, tokens. A stream may go a little beyond its cap: some servers send
 * one token in several chunks, and all of them send chunks around the tokens.
 */
export function limitsOf({ body, maxTokens }: InferenceRequest, cap: number): RequestLimits {
  const completionTokens = maxTokens ?? cap;
  const chunks = completionTokens + Math.ceil(completionTokens / 8) + 32;
  return {
    // A token has at least one byte, and the body is longer than all text in it.
    promptTokens: body.length + templateTokens,
    completionTokens,
    chunks,
    bytes: bytesPerToken * chunks,
    choices: choicesPerChunk * chunks,
  };
}

export function isOverLimit(
  { chunks, bytes }: Produced,
  choices: number,
  limits: RequestLimits,
): boolean {
  return chunks > limits.chunks || bytes > limits.bytes || choices > limits.choices;
}
