/**
 * Reads the body `{ models: [{ id, enabled, owned_by?, price_coefficient? }] }`. Its schema is also published in the
 * OpenAPI document.
 */
import { schemaCompiler, type SchemaError } from "sluice-gateway/json-schema";
import { refuse, type Reply } from "sluice-gateway/plugin";
import type { ModelOverride } from "sluice-gateway/services";

interface Body {
  readonly models: readonly {
    readonly id: string;
    readonly enabled: boolean;
    readonly owned_by?: string;
    readonly price_coefficient?: number;
  }[];
}

/** Excludes control characters, and halves of surrogate pairs, which the store cannot keep. */
const name = { type: "string", pattern: "^[^\\p{Cc}\\p{Cs}]+$", maxLength: 256 };

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
        },
        required: ["id", "enabled"],
        additionalProperties: false,
      },
    },
  },
  required: ["models"],
  examples: [{ models: [{ id: "Provider/Name-1", enabled: true, price_coefficient: 900 }] }],
};

// Only the first violation is reported, because a large body could have one per model.
const isBody = schemaCompiler("network models", {})<Body>(bodySchema);

/** Reads the overrides. `refused`: the reply for an invalid body. */
export function readOverrides(
  value: unknown,
): { readonly models: readonly ModelOverride[] } | { readonly refused: Reply } {
  if (!isBody(value)) return { refused: violated(isBody.errors?.[0]) };
  const models = new Map<string, ModelOverride>();
  for (const [place, { id, enabled, owned_by, price_coefficient }] of value.models.entries()) {
    if (models.has(id)) {
      return {
        refused: violated({ instancePath: `/models/${place}/id`, message: "is listed twice" }),
      };
    }
    models.set(id, { id, enabled, ownedBy: owned_by, priceCoefficient: price_coefficient });
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
