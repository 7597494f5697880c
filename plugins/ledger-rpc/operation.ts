/** What the node proxy takes and answers (gateway.md, "POST /v1/ledger/rpc"). */
import type { Operation } from "sluice-gateway/plugin";

const id = { type: ["string", "number", "null"] };

const request = {
  type: "object",
  properties: {
    jsonrpc: { const: "2.0" },
    id: { description: "Comes back as sent; without it nothing is forwarded or answered.", ...id },
    method: { description: "A whitelisted method of the node.", type: "string" },
    params: { type: ["array", "object", "null"] },
  },
  required: ["jsonrpc", "method"],
};

const result = {
  type: "object",
  properties: {
    jsonrpc: { const: "2.0" },
    id,
    result: { description: "The node's own, byte for byte." },
  },
  required: ["jsonrpc", "id", "result"],
};
const failure = {
  type: "object",
  properties: {
    jsonrpc: { const: "2.0" },
    id,
    error: {
      description: "The gateway's (-32700, -32600, -32601, -32603), or the node's own as it came.",
    },
  },
  required: ["jsonrpc", "id", "error"],
};
const response = { oneOf: [result, failure] };

export const operation: Operation = {
  summary: "Call the node",
  description:
    "JSON-RPC 2.0, one call or up to 50 at once, answered in the same order. Each call with an answer of the node's is charged.",
  body: {
    content: {
      "application/json": {
        oneOf: [request, { type: "array", items: request, minItems: 1, maxItems: 50 }],
      },
    },
    required: true,
  },
  answers: {
    200: {
      description: "Answers, JSON-RPC errors among them",
      content: {
        "application/json": { oneOf: [result, failure, { type: "array", items: response }] },
      },
    },
    204: { description: "The body held notifications only" },
  },
};
