import { randomUUID } from "node:crypto";
import type { Charge, ChargeLine, InferenceResult } from "sluice-gateway/services";
import type { Completion, AcceptedCompletion } from "./api.ts";
import { beginSpan } from "./span.ts";

export function createCompletion(accepted: AcceptedCompletion, charge: Charge): Completion {
  const { x, api, clock } = accepted;
  const id = api.idPrefix + randomUUID();
  return {
    ...accepted,
    charge,
    id,
    span: beginSpan(accepted, id),
    created: Math.floor(x.arrivedAt / 1000),
    startedAt: clock.monotonic(),
    firstTokenMs: undefined,
    brokenBy: undefined,
  };
}

/** Returns the charged milli-CU. `outcome`: the reason why the answer is incomplete. */
export function settle(completion: Completion, result: InferenceResult, outcome?: string): number {
  const { charge } = completion;
  noteCompletion(completion, result);
  charge.settle([chargeLine(completion, result, outcome)]);
  // The charge never exceeds the reservation, whatever the worker reports.
  return charge.usedMilliCu ?? result.costMilliCu;
}

/** Records the model and its tokens for the dashboard. `result`: undefined before a worker answers. */
export function noteCompletion(
  { x, request, firstTokenMs }: Completion,
  result: InferenceResult | undefined,
): void {
  if (result !== undefined) x.note("backend", result.worker.id);
  x.note("completion", {
    model: request.model,
    inputTokens: result?.usage.promptTokens ?? 0,
    outputTokens: result?.usage.completionTokens ?? 0,
    firstTokenMs,
  });
}

function chargeLine(
  { api, request }: Completion,
  { usage, costMilliCu, worker }: InferenceResult,
  outcome?: string,
): Omit<ChargeLine, "surface"> {
  return {
    method: api.method,
    model: request.model,
    costMilliCu,
    inputTokens: usage.promptTokens,
    outputTokens: usage.completionTokens,
    ...(worker.pricing.classes !== undefined && {
      cachedTokens: usage.cachedTokens,
      reasoningTokens: usage.reasoningTokens,
    }),
    estimated: usage.estimated,
    pricing: worker.pricing,
    ...(outcome !== undefined && { outcome }),
  };
}
