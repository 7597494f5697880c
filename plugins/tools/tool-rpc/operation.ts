/** See gateway.md, POST /rpc. The input schemas are those that calls are checked against. */
import type { JsonSchema, Operation } from "sluice-gateway/plugin";
import type { CatalogueEntry } from "sluice-gateway/services";
import { jsonRpcFailure, jsonRpcId, jsonRpcResult } from "sluice-gateway/internal/json-schema";

const result = jsonRpcResult({ type: "object" });
const failure = {
  ...jsonRpcFailure({
    type: "object",
    properties: {
      code: { type: "integer" },
      message: { type: "string" },
      data: {
        type: "object",
        properties: {
          errorCode: {
            description: "Code of the error, starting with GATEWAY_.",
            type: "string",
          },
          details: { type: "object" },
        },
      },
    },
    required: ["code", "message"],
  }),
  examples: [
    {
      jsonrpc: "2.0",
      id: 1,
      error: {
        code: -32003,
        message: "the confirmation token has expired",
        data: { errorCode: "GATEWAY_CONFIRMATION_EXPIRED" },
      },
    },
  ],
};
const response = { oneOf: [result, failure] };

export function operationOf(tools: readonly CatalogueEntry[], maxItems: number): Operation {
  const request = { anyOf: [listing, ...tools.map(callOf)] };
  const batch = { type: "array", items: request, minItems: 1, maxItems: maxItems };
  return {
    summary: "List and call tools",
    description: `JSON-RPC 2.0 with the methods tools.list and tools.call: one request, or up to ${maxItems} at once.`,
    body: {
      content: {
        "application/json": {
          anyOf: [request, batch],
          examples: [{ jsonrpc: "2.0", id: 1, method: "tools.list" }],
        },
      },
      required: true,
    },
    answers: {
      200: {
        description: "The responses, which may be JSON-RPC errors.",
        content: {
          "application/json": {
            oneOf: [result, failure, { type: "array", items: response }],
            examples: [{ jsonrpc: "2.0", id: 1, result: { tools: [] } }],
          },
        },
      },
      202: {
        description: "A write tool asks for confirmation.",
        content: { "application/json": failure },
      },
      204: { description: "The body contained only notifications." },
      410: {
        description: "The confirmation token has expired.",
        content: { "application/json": failure },
      },
    },
  };
}

const listing = envelope("tools.list", { type: ["object", "array", "null"], items: {} }, false);

function callOf({ name, description, inputSchema }: CatalogueEntry): JsonSchema {
  // Without `params` a tool is called with `{}`.
  const isNeeded = inputSchema["required"] !== undefined;
  const params = {
    type: "object",
    properties: {
      tool: { const: name },
      params: inputSchema,
      confirmation_token: {
        description: "Confirmation token of a write tool, here or in its params.",
        type: "string",
      },
    },
    required: isNeeded ? ["tool", "params"] : ["tool"],
  };
  return { description, ...envelope("tools.call", params, true) };
}

function envelope(method: string, params: JsonSchema, isNeeded: boolean): JsonSchema {
  return {
    type: "object",
    properties: { jsonrpc: { const: "2.0" }, id: jsonRpcId, method: { const: method }, params },
    required: ["jsonrpc", "method", ...(isNeeded ? ["params"] : [])],
  };
}
