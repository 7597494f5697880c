/** JSON Schemas of JSON-RPC 2.0 messages, for the OpenAPI document. */
import type { JsonSchema } from "../contract/json.ts";

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
