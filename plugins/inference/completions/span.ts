/**
 * The span of a completion, by OpenTelemetry's conventions for calls of a model
 * (https://github.com/open-telemetry/semantic-conventions-genai, client-inference). One span covers all attempts.
 */
import type { ChildSpan } from "sluice-gateway/plugin";
import type { InferenceResult } from "sluice-gateway/services";
import type { Completion, AcceptedCompletion } from "./api.ts";

export function beginSpan({ x, request }: AcceptedCompletion, id: string): ChildSpan | undefined {
  const { api, model, maxTokens, stream } = request;
  const operation = api === "embeddings" ? "embeddings" : "chat";
  return x.peek("trace")?.child(`${operation} ${model}`, "client", {
    "gen_ai.operation.name": operation,
    // Names the wire format.
    "gen_ai.provider.name": api === "messages" ? "anthropic" : "openai",
    "gen_ai.request.model": model,
    "gen_ai.request.max_tokens": maxTokens,
    "gen_ai.request.stream": stream ? true : undefined,
    "gen_ai.response.id": id,
  });
}

/** `result`: undefined if nothing is charged. `error`: the reason why the answer is missing or incomplete. */
export function endSpan(
  { span, request, firstTokenMs }: Completion,
  result: InferenceResult | undefined,
  error?: string,
): void {
  if (span === undefined) return;
  if (firstTokenMs !== undefined) {
    span.set({ "gen_ai.response.time_to_first_chunk": firstTokenMs / 1000 });
  }
  if (result !== undefined) {
    const { worker, usage, costMilliCu, finishReason } = result;
    span.set({
      "gen_ai.response.model": request.model,
      // The value of the convention for a missing finish reason.
      "gen_ai.response.finish_reasons": [finishReason ?? "error"],
      "gen_ai.usage.input_tokens": usage.promptTokens,
      "gen_ai.usage.output_tokens": usage.completionTokens,
      "gen_ai.usage.cache_read.input_tokens": usage.cachedTokens,
      "gen_ai.usage.reasoning.output_tokens": usage.reasoningTokens,
      "sluice.usage.estimated": usage.estimated ? true : undefined,
      "sluice.network": worker.network,
      "sluice.worker": worker.id,
      "sluice.cu.used_milli": costMilliCu,
    });
  }
  span.end(error);
}
