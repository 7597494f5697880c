/** JSON Schemas of JSON-RPC 2.0 messages, for the OpenAPI document. */
import type { JsonSchema } from "../contract/json.ts";

/** Schema of the id of a request and of its response. */
export const jsonRpcId = { type: ["string", "number", "null"] };

/** Returns the schema of a response with a result. `result`: the schema of its value. */
export function jsonRpcResult(result: JsonSchema): JsonSchema {
  return response({ result });
}

/** Returns the schema of a response with an error. `error`: the schema of its value. */
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
