/** Tools plugin `platform-tools`: what the deployment itself can tell, its models and its attestation. */
import {
  defineTools,
  toolFailure,
  type Evidence,
  type ModelEntry,
  type Networks,
  type Tool,
  type ToolFailure,
} from "sluice-gateway/plugin";

/** gateway.md, "Tools": 0.1 CU each. */
const priceMilli = 100;

export default defineTools({
  name: "platform-tools",
  description: "Adds platform_listModels and platform_getAttestationQuote.",
  start: (_, { networks, evidence }) => ({
    tools: [listModels(networks), getAttestationQuote(evidence)],
  }),
});

function listModels(networks: Networks): Tool<{ readonly network?: string }> {
  return {
    name: "platform_listModels",
    description: "Lists the inference models across networks with per-token prices in milli-CU.",
    inputSchema: {
      type: "object",
      properties: {
        network: {
          description: "Only this network's models; omit for all networks.",
          type: "string",
          enum: ["confidential-classic", "confidential-alpha"],
        },
      },
      additionalProperties: false,
    },
    price: priceMilli,
    capability: "platform:read",
    annotations: { title: "Inference models", readOnlyHint: true, idempotentHint: true },
    call: ({ network }) => ({ ok: true, value: networks.models(network).map(shown) }),
  };
}

function shown(model: ModelEntry): object {
  return {
    network: model.network,
    model_id: model.modelId,
    active_workers: model.activeWorkers,
    promptPriceCUMilli: model.promptPriceCUMilli,
    completionPriceCUMilli: model.completionPriceCUMilli,
    cachedPriceCUMilli: model.cachedPriceCUMilli,
  };
}

function getAttestationQuote(
  evidence: Evidence | undefined,
): Tool<{ readonly report_data?: string }> {
  return {
    name: "platform_getAttestationQuote",
    description: "Makes a fresh attestation quote of this deployment, with its image hash.",
    inputSchema: {
      type: "object",
      properties: {
        report_data: {
          description:
            "64 bytes as 128 hex characters, bound into the quote; omit for image-only verification.",
          type: "string",
          pattern: "^[0-9a-fA-F]{128}$",
        },
      },
      additionalProperties: false,
    },
    price: priceMilli,
    capability: "platform:read",
    annotations: { title: "Attestation quote", readOnlyHint: true },
    async call({ report_data }, { signal }) {
      if (evidence === undefined) return notConfigured;
      const bytes = report_data === undefined ? undefined : Buffer.from(report_data, "hex");
      const made = await evidence.quote(bytes, signal);
      if (made.kind === "failed") return failures[made.reason];
      const { quote, imageHash, reportData, binding, teeType, simulated } = made.quote;
      return { ok: true, value: { quote, imageHash, reportData, binding, teeType, simulated } };
    },
  };
}

const notConfigured = toolFailure(
  "GATEWAY_SERVICE_UNAVAILABLE",
  "no evidence provider is configured on this deployment",
);
const failures: Readonly<Record<"unavailable" | "timeout" | "aborted", ToolFailure>> = {
  unavailable: toolFailure("GATEWAY_SERVICE_UNAVAILABLE", "the evidence provider is unavailable"),
  timeout: toolFailure(
    "GATEWAY_TOOL_EXECUTION_ERROR",
    "the evidence provider did not answer in time",
  ),
  aborted: toolFailure("GATEWAY_TOOL_EXECUTION_ERROR", "the caller has left"),
};
