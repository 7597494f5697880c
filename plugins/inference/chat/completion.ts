/** One completion: who asks, what for, and how its answer is called. */
import { randomUUID } from "node:crypto";
import type {
  Charge,
  ChargeLine,
  Exchange,
  InferenceCall,
  InferenceResult,
} from "sluice-gateway/plugin";
import type { ChatRequest } from "./request.ts";

/** What a request asks for, without its text. */
type Asked = Omit<ChatRequest, "body">;

export interface Completion {
  readonly x: Exchange;
  readonly request: Asked;
  readonly charge: Charge;
  /** `chatcmpl-` and a UUID. */
  readonly id: string;
  /** Unix seconds of the request. */
  readonly created: number;
  /** Why a stream broke after its head was sent. */
  brokenBy: string | undefined;
}

export function createCompletion(x: Exchange, request: Asked, charge: Charge): Completion {
  return {
    x,
    request,
    charge,
    id: `chatcmpl-${randomUUID()}`,
    created: Math.floor(x.arrivedAt / 1000),
    brokenBy: undefined,
  };
}

/** Charges what an answer came to, and returns how many milli-CU that was. `outcome`: why it is not whole. */
export function settle(
  { charge, request }: Completion,
  result: InferenceResult,
  outcome?: string,
): number {
  charge.settle([chargeLine(request.model, result, outcome)]);
  // Never more than was reserved, whatever the worker made of it.
  return charge.usedMilli ?? result.costMilli;
}

/** The client has left: the worker stops, and what it has had and produced is charged. Resolves after that. */
export async function settleClientLeft(
  completion: Completion,
  call: InferenceCall | undefined,
): Promise<undefined> {
  const result = await call?.leave();
  if (result !== undefined) settle(completion, result, "clientLeft");
}

/** Returns the `usage` member of an answer: OpenAI's fields, and `usedCUMilli`, the charge. */
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

function chargeLine(
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
