/**
 * The tokens of an answer: as reported by the worker if the report is plausible, else estimated (decisions.md section
 * 3).
 */
import type { PartialAnswer, TokenUsage } from "sluice-gateway/services";
import { isObject } from "sluice-gateway/toolkit";

/** Maximum number of tokens that a correct worker can report for a request. */
export interface UsageLimit {
  readonly promptTokens: number;
  readonly completionTokens: number;
}

/** Maximum count that is read. It exceeds every context length. */
const maxTokens = 1e9;

/**
 * Reads the report of a worker. Undefined if it is not valid: a count is missing, negative, fractional or too high.
 * `total_tokens` is not read, because prompt and completion are used.
 */
export function readUsage(value: unknown): TokenUsage | undefined {
  if (!isObject(value)) return undefined;
  const { prompt_tokens: promptTokens, completion_tokens: completionTokens } = value;
  if (!isCount(promptTokens) || !isCount(completionTokens)) return undefined;
  return {
    promptTokens,
    completionTokens,
    cachedTokens: detail(value["prompt_tokens_details"], "cached_tokens", promptTokens),
    reasoningTokens: detail(
      value["completion_tokens_details"],
      "reasoning_tokens",
      completionTokens,
    ),
    estimated: false,
  };
}

/** Returns true if a report is within the limits of the request. */
export function isWithin(usage: TokenUsage, limit: UsageLimit): boolean {
  return (
    usage.promptTokens <= limit.promptTokens && usage.completionTokens <= limit.completionTokens
  );
}

/**
 * Estimates the tokens if there is no plausible report: one token per four bytes, and at least one token per chunk. The
 * completion never exceeds the limit of the request.
 */
export function estimateUsage(
  promptBytes: number,
  { chunks, bytes }: PartialAnswer,
  limit: UsageLimit,
): TokenUsage {
  return {
    promptTokens: tokensOf(promptBytes),
    completionTokens: Math.min(Math.max(chunks, tokensOf(bytes)), limit.completionTokens),
    cachedTokens: undefined,
    reasoningTokens: undefined,
    estimated: true,
  };
}

function tokensOf(bytes: number): number {
  return Math.ceil(bytes / 4);
}

function detail(details: unknown, name: string, max: number): number | undefined {
  const count = isObject(details) ? details[name] : undefined;
  return isCount(count) && count <= max ? count : undefined;
}

/** Returns true if the value is a number of tokens that can be read. */
export function isCount(value: unknown): value is number {
  return typeof value === "number" && Number.isInteger(value) && value >= 0 && value <= maxTokens;
}
