/** The messages of the agent protocol are specified by the protocol itself. */
import type { JsonSchema, Operation, OperationPlace } from "sluice-gateway/plugin";
import type { CatalogueEntry } from "sluice-gateway/services";
import { jsonRpcFailure } from "sluice-gateway/internal/json-schema";
import { maxItems } from "../json-rpc-texts.ts";
import { metaKeys } from "../mcp-revisions.ts";

const jsonrpc = { const: "2.0" };

const request = {
  description:
    "JSON-RPC 2.0 request of the Model Context Protocol, or a notification if it has no `id`.",
  type: "object",
  properties: { jsonrpc, id: { type: ["string", "number"] }, method: { type: "string" } },
  required: ["jsonrpc", "method"],
};

const response = {
  description: "JSON-RPC 2.0 response of the Model Context Protocol.",
  type: "object",
  properties: { jsonrpc },
  required: ["jsonrpc"],
  anyOf: [having({ result: {} }), having({ error: {} })],
  not: having({ method: {} }),
};

const batch = {
  description: "Messages of revision 2025-03-26, without `initialize`.",
  type: "array",
  minItems: 1,
  maxItems: maxItems,
  items: {
    anyOf: [request, response],
    not: {
      anyOf: [
        having({ method: { const: "initialize" }, id: {} }),
        having({ params: having({ _meta: having({ [metaKeys.version]: {} }) }) }),
      ],
    },
  },
};

function having(properties: Readonly<Record<string, JsonSchema>>): JsonSchema {
  return { type: "object", properties, required: Object.keys(properties) };
}

function plainCall({ name, description, inputSchema }: CatalogueEntry): JsonSchema {
  // Without `input` a tool is called with `{}`.
  const isNeeded = inputSchema["required"] !== undefined;
  return {
    description,
    type: "object",
    properties: {
      tool: { const: name },
      input: inputSchema,
      confirmation_token: { type: "string" },
    },
    required: isNeeded ? ["tool", "input"] : ["tool"],
    not: having({ jsonrpc: {} }),
  };
}

const result = {
  description: "Result of a plain call.",
  type: "object",
  properties: {
    content: { type: "array", items: { type: "object" } },
    isError: { type: "boolean" },
    _meta: { type: "object" },
  },
  required: ["content", "_meta"],
  examples: [
    {
      content: [{ type: "text", text: "the confirmation token has expired" }],
      isError: true,
      _meta: { errorCode: "GATEWAY_CONFIRMATION_EXPIRED" },
    },
  ],
};

const failure = {
  ...jsonRpcFailure({
    type: "object",
    properties: { code: { type: "integer" }, message: { type: "string" } },
    required: ["code", "message"],
  }),
  examples: [{ jsonrpc: "2.0", id: null, error: { code: -32600, message: "Invalid Request" } }],
};
const failures = { "application/json": failure };

const session = {
  "mcp-session-id": { description: "Session that `initialize` started.", type: "string" },
};

const call = (tools: readonly CatalogueEntry[]): Operation => ({
  summary: "Call tools as an agent",
  description:
    "The Model Context Protocol over streamable HTTP, revisions 2025-03-26 to 2026-07-28, and plain `{ tool, input }` calls.",
  headers: {
    type: "object",
    properties: {
      ...session,
      "mcp-protocol-version": {
        description: "Revision that the client uses. An unknown revision is refused.",
        type: "string",
      },
      "mcp-method": {
        description: "`method` of the request, required in revision 2026-07-28.",
        type: "string",
      },
      "mcp-name": {
        description: "`name` or `uri` in `params` of the request, required in revision 2026-07-28.",
        type: "string",
      },
    },
  },
  body: {
    content: {
      "application/json": {
        anyOf: [request, response, batch, ...tools.map(plainCall)],
        examples: [{ jsonrpc: "2.0", id: 1, method: "tools/list", params: {} }],
      },
    },
    required: true,
  },
  answers: {
    200: {
      description:
        "The response, as an event stream if the client accepts nothing else or asked for progress.",
      content: {
        "application/json": {
          anyOf: [response, result, { type: "array", items: response }],
          examples: [{ jsonrpc: "2.0", id: 1, result: { tools: [] } }],
        },
        "text/event-stream": {
          type: "string",
          examples: ['event: message\ndata: {"jsonrpc":"2.0","id":1,"result":{"tools":[]}}\n\n'],
        },
      },
      headers: {
        "Mcp-Session-Id": {
          description: "Session that `initialize` started.",
          schema: { type: "string" },
        },
      },
    },
    202: {
      description: "The notifications were accepted, or a write tool asks for confirmation.",
      content: { "application/json": result },
    },
    400: { description: "The message is not valid.", content: failures },
    404: { description: "The session has ended, or the method does not exist.", content: failures },
    410: {
      description: "The confirmation token of a plain call has expired.",
      content: { "application/json": result },
    },
  },
  refusals: [
    {
      code: "GATEWAY_PERMISSION_DENIED",
      description: "Pages of this origin may not call this endpoint.",
    },
    {
      code: "GATEWAY_INVALID_PARAMS",
      status: 415,
      description: "The content type is not application/json.",
    },
  ],
});

const end: Operation = {
  summary: "End a session",
  headers: { type: "object", properties: session, required: ["mcp-session-id"] },
  answers: {
    204: { description: "The session has ended." },
    400: { description: "The header Mcp-Session-Id is missing.", content: failures },
    404: { description: "The session does not exist or has ended.", content: failures },
  },
};

export function operationAt(
  { method }: OperationPlace,
  tools: readonly CatalogueEntry[],
): Operation {
  return method === "DELETE" ? end : call(tools);
}
