/** `usage` as clients read it, and the line of the charge. */
import type { ChargeLine, InferenceResult } from "sluice-gateway/plugin";

/** OpenAI's fields and `usedCUMilli`, what was charged. */
export function usageOf({ usage }: InferenceResult, usedMilli: number): object {
  const { promptTokens, completionTokens, cachedTokens, reasoningTokens } = usage;
  return {
    prompt_tokens: promptTokens,
    completion_tokens: completionTokens,
    total_tokens: promptTokens + completionTokens,
    ...(cachedTokens !== undefined && { prompt_tokens_details: { cached_tokens: cachedTokens } }),
    ...(reasoningTokens !== undefined && {
      completion_tokens_details: { reasoning_tokens: reasoningTokens },
    }),
    usedCUMilli: usedMilli,
  };
}

export function chargeLine(
  model: string,
  { usage, costMilli, worker }: InferenceResult,
  outcome?: string,
): Omit<ChargeLine, "surface"> {
  return {
    method: "chat.completions",
    model,
    costMilli,
    inputTokens: usage.promptTokens,
    outputTokens: usage.completionTokens,
    estimated: usage.estimated,
    pricing: worker.pricing,
    ...(outcome !== undefined && { outcome }),
  };
}
