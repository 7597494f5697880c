/** Reads `{ models: [{ id, enabled, owned_by?, price_coefficient?, price_per_token_nano? }] }`. */
import { schemaCompiler, type SchemaError } from "sluice-gateway/internal/json-schema";
import { refuse, type Reply } from "sluice-gateway/plugin";
import type { ModelOverride } from "sluice-gateway/services";
import { readPrices } from "../networks/status-document.ts";

interface Body {
  readonly models: readonly {
    readonly id: string;
    readonly enabled: boolean;
    readonly owned_by?: string;
    readonly price_coefficient?: number;
    readonly price_per_token_nano?: unknown;
  }[];
}

/** Excludes control characters, and halves of surrogate pairs, which the store cannot keep. */
const name = { type: "string", pattern: "^[^\\p{Cc}\\p{Cs}]+$", maxLength: 256 };

const decimal = { type: ["string", "number"] };

export const bodySchema = {
  type: "object",
  properties: {
    models: {
      description:
        "All overrides of the network; they replace earlier ones. Each id may occur once.",
      type: "array",
      maxItems: 10_000,
      items: {
        type: "object",
        properties: {
          id: { description: "Id of the model.", ...name },
          enabled: {
            description: "If false, the model is neither listed nor served.",
            type: "boolean",
          },
          owned_by: name,
          price_coefficient: {
            description:
              "Coefficient in thousandths of the price of the network. Replaces the coefficient of each worker.",
            type: "integer",
            minimum: 0,
            // A thousand times the price of the network.
            maximum: 1_000_000,
          },
          price_per_token_nano: {
            description:
              "Replaces the price of the network: a decimal in nano native tokens, or one for each class of tokens.",
            type: ["string", "number", "object"],
            properties: {
              prompt: decimal,
              cached: { description: "Default: that of the prompt.", ...decimal },
              completion: decimal,
              reasoning: { description: "Default: that of the completion.", ...decimal },
            },
            required: ["prompt", "completion"],
            additionalProperties: false,
          },
        },
        required: ["id", "enabled"],
        additionalProperties: false,
      },
    },
  },
  required: ["models"],
  examples: [
    {
      models: [
        { id: "Provider/Name-1", enabled: true, price_coefficient: 900 },
        {
          id: "Provider/Name-2",
          enabled: true,
          price_per_token_nano: { prompt: "12", cached: "3", completion: "36" },
        },
      ],
    },
  ],
};

// Only the first violation is reported, because a large body could have one per model.
const isBody = schemaCompiler("network models", {})<Body>(bodySchema);

export function readOverrides(
  value: unknown,
): { readonly models: readonly ModelOverride[] } | { readonly refused: Reply } {
  if (!isBody(value)) return { refused: violated(isBody.errors?.[0]) };
  const models = new Map<string, ModelOverride>();
  for (const [place, model] of value.models.entries()) {
    const { id, enabled, owned_by, price_coefficient, price_per_token_nano } = model;
    const refused = (member: string, message: string): { readonly refused: Reply } => ({
      refused: violated({ instancePath: `/models/${place}/${member}`, message }),
    });
    if (models.has(id)) return refused("id", "is listed twice");
    const override = { id, enabled, ownedBy: owned_by, priceCoefficient: price_coefficient };
    const prices = readPrices(price_per_token_nano);
    if (prices === undefined && price_per_token_nano !== undefined) {
      return refused("price_per_token_nano", "must have decimals from 0 to 1000000000");
    }
    models.set(id, prices === undefined ? override : { ...override, prices });
  }
  return { models: [...models.values()] };
}

function violated(error: Pick<SchemaError, "instancePath" | "message"> | undefined): Reply {
  const { instancePath = "", message: reason = "is not allowed" } = error ?? {};
  return refuse("GATEWAY_INVALID_PARAMS", {
    message: "the body does not match its schema",
    details: { violations: [{ path: `/body${instancePath}`, reason }] },
  });
}
