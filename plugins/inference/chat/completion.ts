/** One completion: its request, its charge and the id of its answer. */
import { randomUUID } from "node:crypto";
import type { Clock, Exchange } from "sluice-gateway/plugin";
import type { Charge, ChargeLine, InferenceCall, InferenceResult } from "sluice-gateway/services";
import type { ChatRequest } from "./request.ts";

/** A chat request without the body for the worker. */
export interface AcceptedRequest extends Omit<ChatRequest, "body"> {
  /** Key of its session. Undefined if the network does not use it. */
  readonly session: string | undefined;
}

export interface Completion {
  readonly x: Exchange;
  readonly request: AcceptedRequest;
  readonly charge: Charge;
  /** `chatcmpl-` and a UUID. */
  readonly id: string;
  /** Time of the request in Unix seconds. */
  readonly created: number;
  readonly clock: Clock;
  /** Monotonic time in milliseconds. */
  readonly startedAt: number;
  /** Milliseconds from the start to the first piece of a streamed answer. Undefined before it. */
  firstTokenMs: number | undefined;
  /** Code of the error that broke a stream after its head was sent. */
  brokenBy: string | undefined;
}

export function createCompletion(
  x: Exchange,
  request: AcceptedRequest,
  charge: Charge,
  clock: Clock,
): Completion {
  return {
    x,
    request,
    charge,
    id: `chatcmpl-${randomUUID()}`,
    created: Math.floor(x.arrivedAt / 1000),
    clock,
    startedAt: clock.monotonic(),
    firstTokenMs: undefined,
    brokenBy: undefined,
  };
}

/**
 * Charges the result of an answer and returns the charged milli-CU. `outcome`: the reason why the answer is incomplete.
 */
export function settle(completion: Completion, result: InferenceResult, outcome?: string): number {
  const { charge, request } = completion;
  noteCompletion(completion, result);
  charge.settle([chargeLine(request.model, result, outcome)]);
  // The charge never exceeds the reservation, whatever the worker reports.
  return charge.usedMilliCu ?? result.costMilliCu;
}

/** Records the model for the health over time. `result`: undefined while no worker has answered. */
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

/**
 * Stops the worker because the client has disconnected, and charges the tokens that the worker has read and produced.
 * Resolves after that.
 */
export async function settleClientLeft(
  completion: Completion,
  call: InferenceCall | undefined,
): Promise<undefined> {
  const result = await call?.abortWithUsage();
  if (result !== undefined) settle(completion, result, "clientLeft");
}

/** Returns the `usage` member of an answer: OpenAI's fields, and `usedCUMilli`, the charge. */
export function usageOf({ usage }: InferenceResult, usedMilliCu: number): object {
  const { promptTokens, completionTokens, cachedTokens, reasoningTokens } = usage;
  return {
    prompt_tokens: promptTokens,
    completion_tokens: completionTokens,
    total_tokens: promptTokens + completionTokens,
    ...(cachedTokens !== undefined && { prompt_tokens_details: { cached_tokens: cachedTokens } }),
    ...(reasoningTokens !== undefined && {
      completion_tokens_details: { reasoning_tokens: reasoningTokens },
    }),
    usedCUMilli: usedMilliCu,
  };
}

function chargeLine(
  model: string,
  { usage, costMilliCu, worker }: InferenceResult,
  outcome?: string,
): Omit<ChargeLine, "surface"> {
  return {
    method: "chat.completions",
    model,
    costMilliCu,
    inputTokens: usage.promptTokens,
    outputTokens: usage.completionTokens,
    estimated: usage.estimated,
    pricing: worker.pricing,
    ...(outcome !== undefined && { outcome }),
  };
}
