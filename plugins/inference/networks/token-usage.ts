/**
 * The tokens of an answer: those of the worker's report if it is plausible, else estimates (decisions.md section 3).
 * This file also computes the limits of a request, against which reports and streams are checked.
 */
import type { InferenceRequest, PartialAnswer, TokenUsage } from "sluice-gateway/services";
import { isObject } from "sluice-gateway/internal/toolkit";

/** Number of tokens that a chat template may add, for example with the system prompt of a model. */
const templateTokens = 16_384;
/** Maximum average number of bytes per token. No text exceeds it, even with runs of spaces. */
const bytesPerToken = 64;
/**
 * Number of choices or events per chunk with content, to allow for those without content: the role, the finish reason,
 * a token that is not shown. In the Responses API, six events belong to an item of one chunk.
 */
const choicesPerChunk = 8;

/** The maximum that a correct worker can report for a request. */
export interface UsageLimit {
  readonly promptTokens: number;
  readonly completionTokens: number;
}

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

/** Maximum count that is read. It exceeds every context length. */
const maxTokens = 1e9;

/**
 * Undefined if a count is missing, negative, fractional or too high. `total_tokens` is not read, because prompt and
 * completion are used.
 */
export function readUsage(value: unknown): TokenUsage | undefined {
  if (!isObject(value)) return undefined;
  const { prompt_tokens: promptTokens, completion_tokens: completionTokens } = value;
  if (!isCount(promptTokens) || !isCount(completionTokens)) return undefined;
  return {
    promptTokens,
    completionTokens,
    cachedTokens: detail(value["prompt_tokens_details"], "cached_tokens"),
    reasoningTokens: detail(value["completion_tokens_details"], "reasoning_tokens"),
    estimated: false,
  };
}

/**
 * Undefined if the report exceeds the limits of the request. A part that is larger than its whole is unknown if all
 * tokens have one price. If classes of tokens have prices (`hasClasses`), it makes the whole report implausible.
 */
export function believedUsage(
  reported: TokenUsage,
  limit: UsageLimit,
  hasClasses: boolean,
): TokenUsage | undefined {
  const { promptTokens, completionTokens, cachedTokens = 0, reasoningTokens = 0 } = reported;
  if (promptTokens > limit.promptTokens) return undefined;
  if (completionTokens > limit.completionTokens) return undefined;
  const hasCached = cachedTokens <= promptTokens;
  const hasReasoning = reasoningTokens <= completionTokens;
  if (hasCached && hasReasoning) return reported;
  if (hasClasses) return undefined;
  return {
    ...reported,
    cachedTokens: hasCached ? reported.cachedTokens : undefined,
    reasoningTokens: hasReasoning ? reported.reasoningTokens : undefined,
  };
}

/**
 * Estimates one token per four bytes, and at least one token per chunk. The completion never exceeds the limit of the
 * request. Reasoning is only estimated if it has a price of its own.
 */
export function estimateUsage(
  promptBytes: number,
  { chunks, bytes, reasoningChunks, reasoningBytes }: PartialAnswer,
  limit: UsageLimit,
  hasClasses: boolean,
): TokenUsage {
  const completionTokens = Math.min(Math.max(chunks, tokensOf(bytes)), limit.completionTokens);
  const thought = Math.min(Math.max(reasoningChunks, tokensOf(reasoningBytes)), completionTokens);
  return {
    promptTokens: tokensOf(promptBytes),
    completionTokens,
    cachedTokens: undefined,
    reasoningTokens: hasClasses ? thought : undefined,
    estimated: true,
  };
}

function tokensOf(bytes: number): number {
  return Math.ceil(bytes / 4);
}

function detail(details: unknown, name: string): number | undefined {
  const count = isObject(details) ? details[name] : undefined;
  return isCount(count) ? count : undefined;
}

export function isCount(value: unknown): value is number {
  return typeof value === "number" && Number.isInteger(value) && value >= 0 && value <= maxTokens;
}
