/** JSON Schemas that several plugins use: of options, and of JSON-RPC messages in the OpenAPI document. */
import type { JsonSchema } from "../contract/json.ts";

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

/** The id of a message of JSON-RPC 2.0. */
export const jsonRpcId = { type: ["string", "number", "null"] };

export function jsonRpcResult(result: JsonSchema): JsonSchema {
  return response({ result });
}

export function jsonRpcFailure(error: JsonSchema): JsonSchema {
  return response({ error });
}

function response(value: Readonly<Record<string, JsonSchema>>): JsonSchema {
  return {
    type: "object",
    properties: { jsonrpc: { const: "2.0" }, id: jsonRpcId, ...value },
    required: ["jsonrpc", "id", ...Object.keys(value)],
  };
}
