/** The catalogue of models as clients read it: `GET /v1/models`, and the answer to a change of it. */
import type { ModelEntry } from "./services/networks.ts";

/** decisions.md section 8: `{ object: "list", data: [{ id, object, created, owned_by, network, … }] }` as JSON. */
export function modelList(models: readonly ModelEntry[]): string {
  return JSON.stringify({ object: "list", data: models.map(shown) });
}

function shown(model: ModelEntry): object {
  return {
    id: model.modelId,
    object: "model",
    created: Math.floor(model.createdAt / 1000),
    owned_by: model.ownedBy,
    network: model.network,
    active_workers: model.activeWorkers,
    pricing: {
      prompt_cu_milli: model.promptPriceCUMilli,
      completion_cu_milli: model.completionPriceCUMilli,
      cached_cu_milli: model.cachedPriceCUMilli,
    },
    evidence: model.evidence,
  };
}
