/** Tokens of an answer: the worker's own report where it makes sense, else counted. */
import type { TokenUsage } from "../services/networks.ts";
import { isObject } from "./status.ts";

/** No model's context comes near it: a report beyond is no report. */
const mostTokens = 1e9;

/**
 * What a worker reports; undefined when that is no usage: absent, negative, fractional, beyond all reason.
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

/** What nobody reported: prompt by its characters, completion by chunks with content, else by characters. */
export function countUsage(
  promptChars: number,
  completion: { readonly chunks: number } | { readonly chars: number },
): TokenUsage {
  return {
    promptTokens: tokensOf(promptChars),
    completionTokens: "chunks" in completion ? completion.chunks : tokensOf(completion.chars),
    cachedTokens: undefined,
    reasoningTokens: undefined,
    estimated: true,
  };
}

/** decisions.md section 8: four characters a token, rounded up. */
function tokensOf(chars: number): number {
  return Math.ceil(chars / 4);
}

function detail(details: unknown, name: string, most: number): number | undefined {
  const count = isObject(details) ? details[name] : undefined;
  return isCount(count) && count <= most ? count : undefined;
}

function isCount(value: unknown): value is number {
  return typeof value === "number" && Number.isInteger(value) && value >= 0 && value <= mostTokens;
}
