/** What the discovery document looks like (gateway.md, "Discovery document"). */
import type { Operation } from "sluice-gateway/plugin";

const text = { type: "string" };

const tool = {
  type: "object",
  properties: {
    name: text,
    description: text,
    estimatedCUMilli: { description: "Estimated cost, milli-CU.", type: "integer", minimum: 0 },
    estimatedCUVaries: {
      description: "Whether the real cost differs from the estimate.",
      type: "boolean",
    },
  },
  required: ["name", "description", "estimatedCUMilli", "estimatedCUVaries"],
};

const document = {
  type: "object",
  properties: {
    name: text,
    version: text,
    description: text,
    mcpEndpoint: { description: "Path of the agent protocol.", ...text },
    rpcEndpoint: { description: "Path of the tool JSON-RPC.", ...text },
    auth: {
      type: "object",
      properties: { type: { const: "bearer" }, header: { const: "Authorization" } },
      required: ["type", "header"],
    },
    tools: { type: "array", items: tool },
    capabilities: { type: "array", items: text },
    protocolVersions: {
      description: "Revisions of the Model Context Protocol, newest first.",
      type: "array",
      items: text,
    },
  },
  required: ["name", "version", "description", "mcpEndpoint", "rpcEndpoint", "auth", "tools"],
};

export const operation: Operation = {
  summary: "What this deployment offers to agents",
  headers: {
    type: "object",
    properties: {
      "if-none-match": { description: "The ETag of a document that is already there.", ...text },
    },
  },
  answers: {
    200: {
      description: "Endpoints, tools and protocol versions",
      content: { "application/json": document },
      headers: { ETag: { description: "Names this version of the document.", schema: text } },
    },
    304: { description: "It is still the one of If-None-Match" },
  },
};
