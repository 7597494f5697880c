import { defineTools } from "sluice-gateway/plugin";
import {
  toolFailure,
  type Evidence,
  type EvidenceSource,
  type ModelEntry,
  type Networks,
  type Quote,
  type QuoteFailure,
  type Tool,
  type ToolFailure,
} from "sluice-gateway/services";

/** gateway.md, "Tools": 0.1 CU each. */
const priceMilliCu = 100;

export interface PlatformToolsOptions {
  readonly evidence?: {
    /** Undefined if it is set by an environment variable that is not set. Quotes are then not available. */
    readonly kind?: EvidenceSource;
    readonly binding: Quote["binding"];
  };
}

export default defineTools<PlatformToolsOptions>({
  name: "platform-tools",
  description: "Adds platform_listModels and platform_getAttestationQuote.",
  options: {
    type: "object",
    properties: {
      evidence: {
        type: "object",
        description: "Source of attestation quotes. Without it, the quote tool fails.",
        properties: {
          kind: {
            type: "string",
            enum: ["auto", "tdx", "sev-snp", "dstack", "simulated"],
            description:
              "The platform. `auto` uses the platform of this machine, never a simulation.",
          },
          binding: {
            type: "string",
            enum: ["raw", "hashed"],
            default: "raw",
            description:
              "`hashed`: quotes contain a hash of the requested bytes. Required if the same TD also has an RA-TLS identity; otherwise its quotes could be requested here.",
          },
        },
        additionalProperties: false,
      },
    },
    additionalProperties: false,
  },
  usesIfInstalled: ["networks", "attestation"],
  start({ evidence }, host) {
    const networks = host.use("networks", { ifInstalled: true });
    const source = host.use("attestation", { ifInstalled: true });
    const attestation =
      source === undefined || evidence?.kind === undefined
        ? undefined
        : { evidence: source.evidence(evidence.kind), binding: evidence.binding };
    const quote = getAttestationQuote(attestation);
    return { tools: networks === undefined ? [quote] : [listModels(networks), quote] };
  },
});

interface Attestation {
  readonly evidence: Evidence;
  readonly binding: Quote["binding"];
}

function listModels(networks: Networks): Tool<{ readonly network?: string }> {
  return {
    name: "platform_listModels",
    description: "Lists the inference models across networks with per-token prices in milli-CU.",
    inputSchema: {
      type: "object",
      properties: {
        network: {
          description: "List only models of this network; omit for all networks.",
          type: "string",
          enum: ["confidential-classic", "confidential-alpha"],
        },
      },
      additionalProperties: false,
    },
    price: priceMilliCu,
    capability: "platform:read",
    annotations: { title: "Inference models", readOnlyHint: true, idempotentHint: true },
    call: ({ network }) => ({ ok: true, value: networks.models(network).map(modelJson) }),
  };
}

function modelJson(model: ModelEntry): object {
  return {
    network: model.network,
    model_id: model.modelId,
    active_workers: model.activeWorkers,
    promptPriceCUMilli: model.promptPriceCUMilli,
    completionPriceCUMilli: model.completionPriceCUMilli,
    cachedPriceCUMilli: model.cachedPriceCUMilli,
    reasoningPriceCUMilli: model.reasoningPriceCUMilli,
  };
}

function getAttestationQuote(
  attestation: Attestation | undefined,
): Tool<{ readonly report_data?: string }> {
  return {
    name: "platform_getAttestationQuote",
    description: "Creates a fresh attestation quote of this deployment, with its image hash.",
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
    price: priceMilliCu,
    capability: "platform:read",
    annotations: { title: "Attestation quote", readOnlyHint: true },
    async call({ report_data }, { signal }) {
      if (attestation === undefined) return notConfigured;
      const { evidence, binding } = attestation;
      const bytes = report_data === undefined ? undefined : Buffer.from(report_data, "hex");
      const made = await evidence.quote(bytes, signal, binding);
      if (made.kind === "failed") return failures[made.reason];
      return { ok: true, value: shownQuote(made.quote) };
    },
  };
}

function shownQuote(made: Quote): object {
  const { quote, imageHash, reportData, binding, preimage, teeType, simulated } = made;
  const hashed = preimage === undefined ? {} : { preimage };
  return { quote, imageHash, reportData, binding, ...hashed, teeType, simulated };
}

const notConfigured = toolFailure(
  "GATEWAY_SERVICE_UNAVAILABLE",
  "no evidence provider is configured on this deployment",
);
const timedOut = toolFailure(
  "GATEWAY_TOOL_EXECUTION_ERROR",
  "the evidence provider did not answer in time",
);
const failures: Readonly<Record<QuoteFailure, ToolFailure>> = {
  unavailable: toolFailure("GATEWAY_SERVICE_UNAVAILABLE", "the evidence provider is unavailable"),
  timeout: timedOut,
  // The signal of a tool aborts at the time-out of the call.
  aborted: timedOut,
  reserved: toolFailure(
    "GATEWAY_INVALID_PARAMS",
    "report_data must not start with the bytes of CSTRM1RD: they are reserved for sessions of the encrypted stream",
  ),
};
