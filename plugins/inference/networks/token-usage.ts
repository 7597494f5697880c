/** Tokens of an answer: the worker's own report where it can be believed, else counted (decisions.md section 3). */
import type { TokenUsage } from "../../../src/services/networks.ts";
import { isObject } from "./status-document.ts";

/** What an answer has brought so far. */
export interface Produced {
  /** Chunks with content or reasoning. */
  readonly chunks: number;
  /** UTF-8 bytes of content and reasoning. */
  readonly bytes: number;
}

/** The most tokens that an honest worker can report for a request. */
export interface UsageLimit {
  readonly promptTokens: number;
  readonly completionTokens: number;
}

/** More than any context has: no count beyond it is read. */
const maxTokens = 1e9;

/**
 * What a worker reports; undefined if that is not a usage: a count is missing, negative, fractional or absurd.
 * `total_tokens` is not read: prompt and completion count.
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

/** Whether a report stays within what was asked for. */
export function isWithin(usage: TokenUsage, limit: UsageLimit): boolean {
  return (
    usage.promptTokens <= limit.promptTokens && usage.completionTokens <= limit.completionTokens
  );
}

/**
 * Tokens that no believable report says: four bytes per token, and a token per chunk. The completion is never more than
 * was asked for.
 */
export function countUsage(
  promptBytes: number,
  { chunks, bytes }: Produced,
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

function detail(details: unknown, name: string, most: number): number | undefined {
  const count = isObject(details) ? details[name] : undefined;
  return isCount(count) && count <= most ? count : undefined;
}

function isCount(value: unknown): value is number {
  return typeof value === "number" && Number.isInteger(value) && value >= 0 && value <= maxTokens;
}
