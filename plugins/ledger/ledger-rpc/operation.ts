/** gateway.md, "POST /v1/ledger/rpc". */
import type { Operation } from "sluice-gateway/plugin";
import { jsonRpcFailure, jsonRpcId, jsonRpcResult } from "sluice-gateway/internal/json-schema";

const request = {
  type: "object",
  properties: {
    jsonrpc: { const: "2.0" },
    id: {
      description: "Returned unchanged. A request without an id is neither forwarded nor answered.",
      ...jsonRpcId,
    },
    method: { description: "Whitelisted method of the node.", type: "string" },
    params: { type: ["array", "object", "null"], items: {} },
  },
  required: ["jsonrpc", "method"],
};

const result = jsonRpcResult({ description: "Result of the node, byte for byte." });
const failure = jsonRpcFailure({
  description: "Error of the gateway (-32700, -32600, -32601, -32603), or of the node, unchanged.",
});
const response = { oneOf: [result, failure] };

export const operation: Operation = {
  summary: "Call the node",
  description:
    "JSON-RPC 2.0: one call, or a batch of up to 50 that are answered in the same order. Each call that the node answers is charged.",
  body: {
    content: {
      "application/json": {
        examples: [{ jsonrpc: "2.0", id: 1, method: "system_health", params: [] }],
        oneOf: [request, { type: "array", items: request, minItems: 1, maxItems: 50 }],
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
          examples: [
            {
              jsonrpc: "2.0",
              id: 1,
              result: { peers: 3, isSyncing: false, shouldHavePeers: true },
            },
          ],
        },
      },
    },
    204: { description: "The body contained only notifications." },
  },
};
