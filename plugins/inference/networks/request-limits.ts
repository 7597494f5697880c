import type { InferenceRequest, PartialAnswer } from "sluice-gateway/services";
import type { UsageLimit } from "./token-usage.ts";

/** Number of tokens that a chat template may add, for example with the system prompt of a model. */
const templateTokens = 16_384;
/** Maximum average number of bytes per token. No text exceeds it, even with runs of spaces. */
const bytesPerToken = 64;
/**
 * Number of choices or events per chunk with content, to allow for those without content: the role, the finish reason,
 * a token that is not shown. In the Responses API, six events belong to an item of one chunk.
 */
const choicesPerChunk = 8;

export interface RequestLimits extends UsageLimit {
  /** Maximum number of chunks with content, bytes of text and choices. A stream that exceeds one of them is ended. */
  readonly chunks: number;
  readonly bytes: number;
  readonly choices: number;
}

/**
 * `cap`: token limit for requests without their own limit. A stream may slightly exceed its limit, because some servers
 * send one token in several chunks and all of them send chunks around the tokens.
 */
export function limitsOf(
  { body, maxTokens, imageTokens = 0 }: InferenceRequest,
  cap: number,
): RequestLimits {
  const completionTokens = maxTokens ?? cap;
  const chunks = completionTokens + Math.ceil(completionTokens / 8) + 32;
  return {
    // A token has at least one byte, and the body is longer than all of its text.
    promptTokens: body.length + templateTokens + imageTokens,
    completionTokens,
    chunks,
    bytes: bytesPerToken * chunks,
    choices: choicesPerChunk * chunks,
  };
}

export function isOverLimit(
  { chunks, bytes }: PartialAnswer,
  choices: number,
  limits: RequestLimits,
): boolean {
  return chunks > limits.chunks || bytes > limits.bytes || choices > limits.choices;
}
