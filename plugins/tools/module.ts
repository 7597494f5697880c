import type { Module } from "sluice-gateway/internal/module";
import type { GatewayErrors } from "sluice-gateway/plugin";
import toolCatalogue from "./tool-catalogue/index.ts";

export default {
  services: [toolCatalogue],
  companions: { "tool-catalogue": "tools" },
  suiteRules: async () => [(await import("./settles-rule.ts")).toolsSettleRule],
  init: async () => ({
    templates: {
      mcp: {
        summary: "tools for agents: the Model Context Protocol and JSON-RPC",
        file: "plugins/tools/templates/mcp.yaml",
        hasDemo: true,
      },
    },
  }),
  errors: {
    refusals: {
      GATEWAY_CONFIRMATION_REQUIRED: { status: 202, message: "confirmation required" },
      GATEWAY_BATCH_TOO_LARGE: { status: 400, message: "too many calls in one batch" },
      GATEWAY_WRITE_IN_BATCH: { status: 400, message: "a write tool cannot be part of a batch" },
      GATEWAY_TOOL_NOT_FOUND: { status: 404, message: "unknown tool" },
      GATEWAY_CONFIRMATION_EXPIRED: { status: 410, message: "the confirmation token has expired" },
      GATEWAY_TOOL_EXECUTION_ERROR: {
        status: 500,
        message: "the tool failed",
        isFailure: true,
      },
    } satisfies Partial<GatewayErrors>,
  },
} satisfies Module;
