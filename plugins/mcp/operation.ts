/** What the agent protocol looks like as HTTP: its own specification says what the messages are. */
import type { CatalogueEntry, JsonSchema, Operation, OperationPlace } from "sluice-gateway/plugin";
import { mostItems } from "./json-rpc.ts";
import { metaKeys } from "./revisions.ts";

const jsonrpc = { const: "2.0" };

const request = {
  description:
    "A JSON-RPC 2.0 request of the Model Context Protocol; without `id`, a notification.",
  type: "object",
  properties: { jsonrpc, id: { type: ["string", "number"] }, method: { type: "string" } },
  required: ["jsonrpc", "method"],
};

const response = {
  description: "A JSON-RPC 2.0 response of the Model Context Protocol.",
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
  maxItems: mostItems,
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

/** An object with all of these members. */
function having(properties: Readonly<Record<string, JsonSchema>>): JsonSchema {
  return { type: "object", properties, required: Object.keys(properties) };
}

/** A bare call, answered with the bare result. */
function plainCall({ name, description, inputSchema }: CatalogueEntry): JsonSchema {
  // A tool is called with `{}` where there is no input.
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
  description: "The result of a bare call.",
  type: "object",
  properties: {
    content: { type: "array", items: { type: "object" } },
    isError: { type: "boolean" },
    _meta: { type: "object" },
  },
  required: ["content", "_meta"],
};

const failure = {
  type: "object",
  properties: {
    jsonrpc: { const: "2.0" },
    id: { type: ["string", "number", "null"] },
    error: {
      type: "object",
      properties: { code: { type: "integer" }, message: { type: "string" } },
      required: ["code", "message"],
    },
  },
  required: ["jsonrpc", "id", "error"],
};
const failures = { "application/json": failure };

const session = {
  "mcp-session-id": { description: "The session that `initialize` began.", type: "string" },
};

const call = (tools: readonly CatalogueEntry[]): Operation => ({
  summary: "Talk to tools as an agent",
  description:
    "The Model Context Protocol over streamable HTTP, revisions 2026-07-28 to 2025-03-26, and bare `{ tool, input }` calls.",
  headers: {
    type: "object",
    properties: {
      ...session,
      "mcp-protocol-version": {
        description: "The revision that the client speaks; one that is not known is refused.",
        type: "string",
      },
      "mcp-method": {
        description: "Of revision 2026-07-28: the request's `method`.",
        type: "string",
      },
      "mcp-name": {
        description: "Of revision 2026-07-28: the `name` or `uri` of the request's `params`.",
        type: "string",
      },
    },
  },
  body: {
    content: {
      "application/json": { anyOf: [request, response, batch, ...tools.map(plainCall)] },
    },
    required: true,
  },
  answers: {
    200: {
      description:
        "The answer, as a stream where the client accepts nothing else or asked for progress",
      content: {
        "application/json": { anyOf: [response, result, { type: "array", items: response }] },
        "text/event-stream": { type: "string" },
      },
      headers: {
        "Mcp-Session-Id": {
          description: "The session that `initialize` began.",
          schema: { type: "string" },
        },
      },
    },
    202: {
      description: "Notifications are taken and not answered; a write tool asks for confirmation",
      content: { "application/json": result },
    },
    400: { description: "The message cannot be served", content: failures },
    404: { description: "The session has ended, or there is no such method", content: failures },
    410: {
      description: "The confirmation token of a bare call has expired",
      content: { "application/json": result },
    },
  },
  refusals: [
    {
      code: "GATEWAY_PERMISSION_DENIED",
      description: "The page's Origin may not call this endpoint",
    },
    {
      code: "GATEWAY_INVALID_PARAMS",
      status: 415,
      description: "The content type is not application/json",
    },
  ],
});

const end: Operation = {
  summary: "End a session",
  headers: { type: "object", properties: session, required: ["mcp-session-id"] },
  answers: {
    204: { description: "It has ended" },
    400: { description: "No session is named", content: failures },
    404: { description: "There is no such session", content: failures },
  },
};

export function operationAt(
  { method }: OperationPlace,
  tools: readonly CatalogueEntry[],
): Operation {
  return method === "DELETE" ? end : call(tools);
}
