/** Service `enclave-workers`: networks of kind `enclave`, whose workers decrypt the encrypted stream themselves. */
import { defineService, type JsonSchema } from "sluice-gateway/plugin";
import type { EnclaveWorkers } from "./enclave-workers.ts";
import { evidenceFaults, type Options } from "./options.ts";

declare module "sluice-gateway/plugin" {
  interface ServiceTypes {
    "enclave-workers": EnclaveWorkers;
  }
}

const hexDigest = { type: "string", pattern: "^[0-9a-f]{64,96}$" };

function textList(items: JsonSchema, description: string): JsonSchema {
  return { type: "array", items, default: [], description };
}

const snpLevel: JsonSchema = { type: "integer", minimum: 0, maximum: 255 };

function snpMinimum(product: string, parts: readonly string[]): JsonSchema {
  return {
    type: "object",
    description: `Minimum security patch levels of EPYC ${product}; parts that are not listed have no minimum.`,
    additionalProperties: false,
    minProperties: 1,
    properties: Object.fromEntries(parts.map((part) => [part, snpLevel])),
  };
}

const snpParts = ["bootloader", "tee", "snp", "microcode"];

const sevSnpSchema: JsonSchema = {
  type: "object",
  description:
    "Conditions for SEV-SNP evidence. Without this section, no SEV-SNP evidence is accepted.",
  additionalProperties: false,
  required: ["min_tcb"],
  properties: {
    min_tcb: {
      type: ["string", "object"],
      pattern: "^any$",
      description:
        "Minimum TCB per product, from AMD's security bulletins. Products that are not listed are refused. any disables the check.",
      additionalProperties: false,
      minProperties: 1,
      properties: {
        Milan: snpMinimum("7003 (Milan)", snpParts),
        Genoa: snpMinimum("9004 (Genoa, Bergamo, Siena)", snpParts),
        Turin: snpMinimum("9005 (Turin)", ["fmc", ...snpParts]),
      },
    },
    require_crl: {
      type: "boolean",
      default: true,
      description:
        "Whether evidence must contain AMD's current revocation list. false disables the check.",
    },
  },
};

/** Evidence policy of an enclave network: confidential-stream.md section 3.5. */
const evidenceSchema: JsonSchema = {
  type: "object",
  description:
    "For kind enclave: conditions that the evidence of workers must meet before they receive a request.",
  additionalProperties: false,
  default: {},
  properties: {
    kind: {
      enum: ["hardware", "simulated"],
      default: "hardware",
      description: "simulated is evidence without hardware, for development.",
    },
    roots: textList(
      { type: "string", pattern: "^[A-Za-z0-9+/]+={0,2}$" },
      "For kind simulated: accepted test roots, DER in base64, as sluice worker prints them. An empty list accepts any root.",
    ),
    image_hashes: {
      type: ["string", "array"],
      items: hexDigest,
      minItems: 1,
      pattern: "^any$",
      description:
        "SHA-256 hashes of the accepted images, in lower-case hex. any accepts every image.",
    },
    mrseam: textList(
      hexDigest,
      "Accepted TDX modules. An empty list accepts the modules that Intel reports as up to date.",
    ),
    advisories: textList(
      { type: "string", minLength: 1 },
      "Advisories (INTEL-SA-…) that are accepted on a platform that needs software hardening.",
    ),
    min_tcb_evaluation: {
      type: "integer",
      minimum: 0,
      description: "Minimum tcbEvaluationDataNumber of TDX collateral.",
    },
    platforms: {
      type: "array",
      items: { type: "string", pattern: "^[0-9a-f]+$" },
      description:
        "PPIDs (TDX) or chip ids (SEV-SNP) of the accepted machines. By default, any machine is accepted.",
    },
    sev_snp: sevSnpSchema,
  },
};

export default defineService<Options, EnclaveWorkers>({
  name: "enclave-workers",
  description: "Inference networks whose workers decrypt the encrypted stream in their enclaves.",
  extends: {
    networks: {
      kind: {
        enum: ["enclave"],
        description: "Protocol of the workers: OpenAI's API, or the encrypted stream.",
      },
      evidence: evidenceSchema,
    },
  },
  uses: ["networks"],
  checkSections: evidenceFaults,
  async start(options, host, context) {
    const { openEnclaveWorkers } = await import("./enclave-workers.ts");
    return { service: openEnclaveWorkers(options, host, context) };
  },
});
