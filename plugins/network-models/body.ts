/** Reads `{ models: [{ id, enabled, owned_by?, price_coefficient? }] }`. */
import type { ModelOverride } from "sluice-gateway/plugin";

export const mostModels = 10_000;
export const mostChars = 256;
/** A thousand times the network's price. */
export const mostCoefficient = 1_000_000;

/** `wrong` tells the caller what is. */
export function readOverrides(
  value: unknown,
): { readonly models: readonly ModelOverride[] } | { readonly wrong: string } {
  const list = isObject(value) ? value["models"] : undefined;
  if (!Array.isArray(list)) return { wrong: "the body must be { models: [...] }" };
  if (list.length > mostModels) return { wrong: `there may be at most ${mostModels} models` };
  const models = new Map<string, ModelOverride>();
  for (const [index, one] of list.entries()) {
    const model = readOverride(one);
    if (typeof model === "string") return { wrong: `models[${index}]${model}` };
    if (models.has(model.id)) return { wrong: `models[${index}].id stands twice` };
    models.set(model.id, model);
  }
  return { models: [...models.values()] };
}

function readOverride(value: unknown): ModelOverride | string {
  if (!isObject(value)) return " must be an object";
  const { id, enabled, owned_by: ownedBy, price_coefficient: coefficient, ...others } = value;
  const [unknown] = Object.keys(others);
  if (unknown !== undefined) return ` has an unknown member: ${unknown.slice(0, 64)}`;
  if (!isName(id)) return `.id must be a text of 1 to ${mostChars} characters`;
  if (typeof enabled !== "boolean") return ".enabled must be true or false";
  if (ownedBy !== undefined && !isName(ownedBy)) {
    return `.owned_by must be a text of 1 to ${mostChars} characters`;
  }
  if (coefficient !== undefined && !isCoefficient(coefficient)) {
    return `.price_coefficient must be a whole number from 0 to ${mostCoefficient}`;
  }
  return { id, enabled, ownedBy, priceCoefficient: coefficient };
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isName(value: unknown): value is string {
  return typeof value === "string" && value !== "" && value.length <= mostChars;
}

function isCoefficient(value: unknown): value is number {
  return (
    typeof value === "number" && Number.isInteger(value) && value >= 0 && value <= mostCoefficient
  );
}
