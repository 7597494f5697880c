/** What the agent protocol looks like as HTTP: its own specification says what the messages are. */
import type { Operation, OperationPlace } from "sluice-gateway/plugin";

const message = {
  description: "A JSON-RPC 2.0 message of the Model Context Protocol.",
  type: "object",
  properties: { jsonrpc: { const: "2.0" }, method: { type: "string" } },
  required: ["jsonrpc"],
};

const plainCall = {
  description: "A bare call, answered with the bare result.",
  type: "object",
  properties: {
    tool: { type: "string" },
    input: { type: "object" },
    confirmation_token: { type: "string" },
  },
  required: ["tool"],
};

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

const call: Operation = {
  summary: "Talk to tools as an agent",
  description:
    "The Model Context Protocol over streamable HTTP, revisions 2026-07-28 to 2025-03-26, and bare `{ tool, input }` calls.",
  headers: {
    type: "object",
    properties: {
      ...session,
      "mcp-protocol-version": {
        description: "The revision that the client speaks.",
        type: "string",
      },
    },
  },
  body: {
    content: {
      "application/json": { anyOf: [message, plainCall, { type: "array", items: message }] },
    },
    required: true,
  },
  answers: {
    200: {
      description:
        "The answer, as a stream where the client accepts nothing else or asked for progress",
      content: {
        "application/json": { anyOf: [message, result, { type: "array", items: message }] },
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
};

const end: Operation = {
  summary: "End a session",
  headers: { type: "object", properties: session, required: ["mcp-session-id"] },
  answers: {
    204: { description: "It has ended" },
    400: { description: "No session is named", content: failures },
    404: { description: "There is no such session", content: failures },
  },
};

export function operationAt({ method }: OperationPlace): Operation {
  return method === "DELETE" ? end : call;
}
