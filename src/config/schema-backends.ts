/** The parts of the file's schema for the backends: nodes and inference networks. */
import type { JsonSchema } from "../plugin.ts";

function integer(
  fallback: number,
  bounds: readonly [number, number],
  description: string,
): JsonSchema {
  return {
    type: "integer",
    minimum: bounds[0],
    maximum: bounds[1],
    default: fallback,
    description,
  };
}

const day = 86_400_000;

/** Price of one native token in USD: decisions.md section 8. */
export const rateSchema: JsonSchema = {
  type: ["string", "object"],
  format: "usd-rate",
  description:
    "Price of one native token in USD: a decimal, a URL that ends in a JSON Pointer (#/data/price), or { url, pointer, every }.",
  additionalProperties: false,
  required: ["url", "pointer"],
  properties: {
    url: { type: "string", format: "http-url", description: "URL of a JSON document." },
    pointer: {
      type: "string",
      format: "json-pointer",
      description: "JSON Pointer to the price in the document.",
    },
    every: {
      type: "string",
      format: "short-duration",
      default: "60s",
      description: "Interval between two reads.",
    },
  },
};

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

/** confidential-stream.md section 3.5: a verifier does not fetch anything, so collateral is sent with the quote. */
export const collateralSchema: JsonSchema = {
  type: "object",
  description:
    "Sources of the collateral that verifiers need in addition to this gateway's evidence. Read at the start.",
  additionalProperties: false,
  default: {},
  properties: {
    pccs: {
      type: "string",
      format: "http-url",
      description:
        "TDX: URL of Intel's collateral, a PCCS or https://api.trustedservices.intel.com.",
    },
    file: {
      type: "string",
      minLength: 1,
      description:
        "TDX: a JSON file with the collateral, instead of pccs. The path is relative to pipeline.yaml. The file is read again for each quote.",
    },
    kds: {
      type: "string",
      format: "http-url",
      description:
        "SEV-SNP: URL of AMD's revocation list, https://kdsintf.amd.com or a mirror of it.",
    },
  },
};

/** One inference network: decisions.md section 8. A network without a `url` is disabled. */
export const networkSchema: JsonSchema = {
  type: "object",
  description: "One inference network.",
  additionalProperties: false,
  required: ["kind"],
  properties: {
    kind: {
      enum: ["openai", "enclave"],
      description: "Protocol of the workers: OpenAI's API, or the encrypted stream.",
    },
    url: {
      type: "string",
      format: "network-url",
      description:
        "For openai, the base URL, with or without /v1. For enclave, the URL of the worker. Without a URL, the network is disabled.",
    },
    origins: {
      type: "array",
      items: { type: "string", format: "origin" },
      default: [],
      description:
        "Origins, in addition to that of url, to which prompts and headers may be sent. Workers at other origins are skipped.",
    },
    evidence: evidenceSchema,
    status: {
      type: "object",
      additionalProperties: false,
      default: {},
      description: "Source from which prices and workers are polled.",
      properties: {
        url: {
          type: "string",
          format: "http-url",
          description:
            "URL of a status document. Without it, each model that the network lists is a worker.",
        },
        every: {
          type: "string",
          format: "short-duration",
          default: "10s",
          description: "Interval between two reads of workers and prices.",
        },
      },
    },
    price_per_token_nano: {
      type: "string",
      format: "decimal",
      default: "0",
      description:
        "Price per token in nano native tokens, if the status document does not have a price.",
    },
    rate: rateSchema,
    headers: {
      type: "object",
      default: {},
      propertyNames: { pattern: "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$" },
      additionalProperties: { type: "string", pattern: "^[\\t -~\\x80-\\xff]*$" },
      description: "Headers that are sent to its servers, such as Authorization.",
    },
    connectMs: integer(2_000, [1, day], "Time limit for opening a connection."),
    idleMs: integer(
      60_000,
      [1, day],
      "Time limit until a streamed answer begins, and maximum pause between two chunks of any answer.",
    ),
    answerMs: integer(600_000, [1, day], "Time limit until an answer that is not streamed begins."),
    maxOutputTokens: integer(
      8_192,
      [1, 10_000_000],
      "Number of output tokens for which credit is reserved if the request has no max_tokens.",
    ),
  },
};
