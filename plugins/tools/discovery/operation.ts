import type { Operation } from "sluice-gateway/plugin";

const text = { type: "string" };

const etag = { ...text, examples: ['"Pz8_Pz8_Pz8_Pz8_Pz8_Pw"'] };

const tool = {
  type: "object",
  properties: {
    name: text,
    description: text,
    estimatedCUMilli: { description: "Estimated cost in milli-CU.", type: "integer", minimum: 0 },
    estimatedCUVaries: {
      description: "Whether the actual cost can differ from the estimate.",
      type: "boolean",
    },
  },
  required: ["name", "description", "estimatedCUMilli", "estimatedCUVaries"],
};

const document = {
  examples: [
    {
      name: "Sluice",
      version: "0.1.0",
      description: "Tools of a Substrate node and a confidential inference network.",
      mcpEndpoint: "/mcp",
      rpcEndpoint: "/rpc",
      auth: { type: "bearer", header: "Authorization" },
      tools: [
        {
          name: "ledger_getHealth",
          description: "Health of the node.",
          estimatedCUMilli: 100,
          estimatedCUVaries: false,
        },
      ],
      capabilities: ["tools", "batch", "agent-tracking"],
      protocolVersions: ["2026-07-28", "2025-11-25"],
    },
  ],
  type: "object",
  properties: {
    name: text,
    version: text,
    description: text,
    mcpEndpoint: { description: "Path of the agent protocol.", ...text },
    rpcEndpoint: { description: "Path of the tool JSON-RPC endpoint.", ...text },
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
  summary: "Show the endpoints and tools of this deployment",
  headers: {
    type: "object",
    properties: {
      "if-none-match": { description: "ETag of the document that the client has.", ...etag },
    },
  },
  answers: {
    200: {
      description: "Endpoints, tools and protocol versions of the deployment.",
      content: { "application/json": document },
      headers: { ETag: { description: "Identifies this version of the document.", schema: etag } },
    },
    304: { description: "The document has not changed since the ETag in If-None-Match." },
  },
};
