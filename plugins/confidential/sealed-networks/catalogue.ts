import type { ListedPrices, ListedWorker, NetworkStatus } from "sluice-gateway/services";
import { isObject } from "sluice-gateway/internal/toolkit";
import { isCount } from "../protocol/strict-json.ts";

const maxModels = 10_000;

export function workerId(network: string, model: string): string {
  return JSON.stringify([network, model]);
}

export function networkOf({ id }: Pick<ListedWorker, "id">): string {
  // `workerId` wrote it.
  return (JSON.parse(id) as readonly [string, string])[0];
}

/**
 * Reads the answer of `GET /v1/models`. Each model is one worker, and the first network that lists a model serves it.
 * Nothing in the list is trusted: each session is verified. `network`: the only network that is used. Without it, a
 * model needs evidence.
 */
export function readCatalogue(
  value: unknown,
  network: string | undefined,
): NetworkStatus | undefined {
  if (!isObject(value) || !Array.isArray(value["data"])) return undefined;
  const workers = new Map<string, ListedWorker>();
  for (const entry of value["data"].slice(0, maxModels) as unknown[]) {
    const { id: model, network: listed, evidence, pricing } = isObject(entry) ? entry : {};
    if (!isName(model) || !isName(listed) || workers.has(model)) continue;
    const hasEvidence = evidence !== undefined && evidence !== "none";
    if (network === undefined ? !hasEvidence : listed !== network) continue;
    const id = workerId(listed, model);
    const prices = readPrices(pricing);
    workers.set(model, { id, model, coefficient: 1000, state: "active", url: undefined, prices });
  }
  return { prices: undefined, workers: [...workers.values()] };
}

/** These prices are for the local list. Each bill is checked against the offer of its session instead. */
function readPrices(pricing: unknown): ListedPrices | undefined {
  const {
    prompt_cu_milli: prompt,
    completion_cu_milli: completion,
    ...other
  } = isObject(pricing) ? pricing : {};
  const { cached_cu_milli: cached, reasoning_cu_milli: reasoning } = other;
  if (!isCount(prompt) || !isCount(completion) || !isCount(cached)) return undefined;
  return {
    promptPriceCUMilli: prompt,
    completionPriceCUMilli: completion,
    cachedPriceCUMilli: cached,
    reasoningPriceCUMilli: isCount(reasoning) ? reasoning : undefined,
  };
}

function isName(value: unknown): value is string {
  // Names are printed in settings that people paste, so they have no control and format characters.
  return typeof value === "string" && /^[^\p{C}\p{Zl}\p{Zp}]{1,256}$/u.test(value);
}
