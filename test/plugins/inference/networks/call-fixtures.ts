/** Shared by the tests of calls: two workers in order, and the cost of an answer. */
import type { InferenceResult, NetworkKind } from "sluice-gateway/services";
import { openNetwork, type Opened } from "./network-harness.ts";
import { raw } from "./worker-scripts.ts";
import { chunkOf, eventOf } from "./chat-events.ts";
import type { Script, Worker } from "./scripted-worker.ts";

export function costOf({ usage, costMilliCu }: InferenceResult): unknown {
  return { ...usage, costMilliCu };
}

// 12 nano × 0.25 USD = 3 milli-CU per token.
export const reported = {
  promptTokens: 5,
  completionTokens: 2,
  cachedTokens: undefined,
  reasoningTokens: undefined,
  estimated: false,
  costMilliCu: 21,
};

export const streamOf = (...texts: string[]): Script => raw(200, {}, texts);
export const estimated = { ...reported, estimated: true };

/** Opens a network with two workers of the model, of which the first is tried first. */
export async function openTwoWorkers(
  first: Worker,
  second: Worker,
  more: object = {},
  kind?: NetworkKind,
): Promise<Opened> {
  const listed = [first, second].map(({ url }, n) => ({ id: `w${n}`, model: "Test/Model-1", url }));
  first.documents.set("/status", { price_per_token_nano: "12", workers: listed });
  const origins = [first.url, second.url];
  return openNetwork(
    first.url,
    { statusUrl: `${first.url}/status`, origins, ...more },
    undefined,
    kind,
  );
}

export const error = '{"error":{"message":"secret","code":500}}';

export const firstEvent = eventOf(chunkOf({ content: "Hello" }));
