import type { JsonSchema } from "../plugin.ts";

export function integerSchema(
  fallback: number,
  bounds: readonly [number, number],
  description: string,
): JsonSchema {
  return {
    type: "integer",
    minimum: bounds[0],
    maximum: bounds[1],
    default: fallback,
    description,
  };
}
