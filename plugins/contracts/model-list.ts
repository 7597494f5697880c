/** The catalogue of models as clients see it, in `GET /v1/models` and after changes to it. */
import type { JsonSchema } from "sluice-gateway/plugin";
import type { ModelEntry } from "./inference.ts";

/** Returns `{ object: "list", data: [{ id, object, created, owned_by, network, … }] }` (decisions.md section 8). */
export function modelList(models: readonly ModelEntry[]): string {
  return JSON.stringify({ object: "list", data: models.map(modelMembers) });
}

export function modelJson(model: ModelEntry): string {
  return JSON.stringify(modelMembers(model));
}

function modelMembers(model: ModelEntry): object {
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
      reasoning_cu_milli: model.reasoningPriceCUMilli,
    },
    evidence: model.evidence,
  };
}

export const modelSchema: JsonSchema = {
  type: "object",
  properties: {
    id: { type: "string" },
    object: { const: "model" },
    created: { description: "Time in Unix seconds.", type: "integer" },
    owned_by: { type: "string" },
    network: { type: "string" },
    active_workers: { type: "integer", minimum: 0 },
    pricing: {
      description: "Milli-CU per token, at the median coefficient of the active workers.",
      type: "object",
      properties: {
        prompt_cu_milli: { type: "integer", minimum: 0 },
        completion_cu_milli: { type: "integer", minimum: 0 },
        cached_cu_milli: { type: "integer", minimum: 0 },
        reasoning_cu_milli: {
          description: "Missing if all tokens have one price.",
          type: "integer",
          minimum: 0,
        },
      },
      required: ["prompt_cu_milli", "completion_cu_milli", "cached_cu_milli"],
    },
    evidence: {
      description: "Hardware that attests the workers.",
      enum: ["tdx", "sev-snp", "simulated", "none"],
    },
  },
  required: ["id", "object", "created", "owned_by", "network", "active_workers", "pricing"],
};

export const modelListSchema: JsonSchema = {
  examples: [
    {
      object: "list",
      data: [
        {
          id: "Demo/Echo-1",
          object: "model",
          created: 1795253400,
          owned_by: "confidential-classic",
          network: "confidential-classic",
          active_workers: 2,
          pricing: {
            prompt_cu_milli: 3,
            completion_cu_milli: 9,
            cached_cu_milli: 1,
            reasoning_cu_milli: 9,
          },
          evidence: "tdx",
        },
      ],
    },
  ],
  type: "object",
  properties: {
    object: { const: "list" },
    data: {
      type: "array",
      items: modelSchema,
    },
  },
  required: ["object", "data"],
};
