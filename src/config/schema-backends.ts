/** The parts of the file's schema that describe what Sluice stands in front of: nodes and inference networks. */
import type { JsonSchema } from "../plugin.ts";

const mebibyte = 1_048_576;

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

/** One backend. `forward` uses the first group of members, the node proxy all. */
export const upstreamSchema: JsonSchema = {
  type: "object",
  description: "One backend.",
  additionalProperties: false,
  required: ["urls"],
  properties: {
    urls: {
      type: ["string", "array"],
      format: "upstream-urls",
      items: { type: "string", format: "upstream-urls" },
      minItems: 1,
      description: "One URL or several (a list, or comma-separated): http, https, ws or wss.",
    },
    connectMs: integer(2_000, [1, day], "Until a connection stands."),
    headersMs: integer(30_000, [1, day], "Until the head of the answer."),
    idleMs: integer(60_000, [1, day], "Between two pieces of a body."),
    connections: integer(64, [1, 10_000], "The most connections to one URL (a node allows 100)."),
    aliases: {
      type: "object",
      default: {},
      additionalProperties: { type: "string", minLength: 1 },
      description: "Prefix that clients use to the node's own, such as ledger_ to midnight_.",
    },
    methods: {
      type: "object",
      default: {},
      description:
        "Node methods: false takes one off the whitelist, an object adds or re-prices it.",
      additionalProperties: {
        type: ["boolean", "object"],
        additionalProperties: false,
        properties: {
          cuMilli: { type: "integer", minimum: 0, maximum: 1e12, description: "Price, milli-CU." },
          params: {
            type: "array",
            items: { type: "string", minLength: 1 },
            description: 'Names in order, such as ["storageKey", "blockHash?"].',
          },
        },
      },
    },
    cacheBytes: integer(64 * mebibyte, [0, 1e12], "Bound of the immutable cache; 0: no cache."),
    singleFlight: {
      type: "boolean",
      default: true,
      description: "Identical reads in flight share one call.",
    },
    batchParallel: integer(8, [1, 50], "Items of one batch that run at once."),
    probeMs: integer(2_000, [100, day], "How often nodes are probed."),
    maxLag: integer(8, [1, 1e9], "Blocks behind the best node before a node is left out."),
    maxHeadAge: {
      type: "string",
      format: "short-duration",
      description:
        "A node whose head is older is left out, such as 60s; absent: age does not count.",
    },
    answerBytes: integer(64 * mebibyte, [1_024, 1e9], "The largest answer taken from a node."),
  },
};

/** USD price of one native token: decisions.md section 8. */
export const rateSchema: JsonSchema = {
  type: ["string", "object"],
  format: "usd-rate",
  description:
    "USD of one native token: a decimal, a URL with #/json/pointer, or { url, pointer, every }.",
  additionalProperties: false,
  required: ["url", "pointer"],
  properties: {
    url: { type: "string", format: "http-url", description: "A JSON document." },
    pointer: { type: "string", format: "json-pointer", description: "The price in it." },
    every: {
      type: "string",
      format: "short-duration",
      default: "60s",
      description: "How often it is read.",
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
    description: `Minimum security patch levels of EPYC ${product}; parts that are not listed have none.`,
    additionalProperties: false,
    minProperties: 1,
    properties: Object.fromEntries(parts.map((part) => [part, snpLevel])),
  };
}

const snpParts = ["bootloader", "tee", "snp", "microcode"];

const sevSnpSchema: JsonSchema = {
  type: "object",
  description: "Conditions for SEV-SNP evidence; without them none is accepted.",
  additionalProperties: false,
  required: ["min_tcb"],
  properties: {
    min_tcb: {
      type: ["string", "object"],
      pattern: "^any$",
      description:
        "Minimum TCB per product, from AMD's security bulletins; others are refused. any: opts out of the check.",
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
        "Evidence must carry AMD's current revocation list; false: opts out of the check.",
    },
  },
};

/** What the workers of an enclave network must show: confidential-stream.md section 3.5. */
const evidenceSchema: JsonSchema = {
  type: "object",
  description: "kind enclave: what its workers must show before they get a request.",
  additionalProperties: false,
  default: {},
  properties: {
    kind: {
      enum: ["hardware", "simulated"],
      default: "hardware",
      description: "simulated: no hardware vouches, for development.",
    },
    roots: textList(
      { type: "string", pattern: "^[A-Za-z0-9+/]+={0,2}$" },
      "simulated: the test roots accepted, DER in base64, as sluice worker prints them; empty: any.",
    ),
    image_hashes: {
      type: ["string", "array"],
      items: hexDigest,
      minItems: 1,
      pattern: "^any$",
      description: "SHA-256 of the images accepted, lower-case hex; any: whatever runs there.",
    },
    mrseam: textList(hexDigest, "TDX modules accepted; empty: those that Intel calls up to date."),
    advisories: textList(
      { type: "string", minLength: 1 },
      "Advisories (INTEL-SA-…) that a platform in need of hardening may have.",
    ),
    min_tcb_evaluation: {
      type: "integer",
      minimum: 0,
      description: "The lowest tcbEvaluationDataNumber of TDX collateral.",
    },
    platforms: {
      type: "array",
      items: { type: "string", pattern: "^[0-9a-f]+$" },
      description: "PPIDs (TDX) or chip ids (SEV-SNP) of the machines accepted; absent: any.",
    },
    sev_snp: sevSnpSchema,
  },
};

/** confidential-stream.md section 3.5: a verifier fetches nothing, so that what it needs comes with the quote. */
export const collateralSchema: JsonSchema = {
  type: "object",
  description: "What verifiers need beside this gateway's own evidence; read at the start.",
  additionalProperties: false,
  default: {},
  properties: {
    pccs: {
      type: "string",
      format: "http-url",
      description:
        "TDX: where Intel's collateral is fetched, a PCCS or https://api.trustedservices.intel.com.",
    },
    file: {
      type: "string",
      minLength: 1,
      description:
        "TDX: a JSON file instead, relative to this one, which is read again for each quote.",
    },
    kds: {
      type: "string",
      format: "http-url",
      description:
        "SEV-SNP: where AMD's revocation list is fetched, https://kdsintf.amd.com or a mirror of it.",
    },
  },
};

/** One inference network: decisions.md section 8. A network without a `url` is not configured. */
export const networkSchema: JsonSchema = {
  type: "object",
  description: "One inference network.",
  additionalProperties: false,
  required: ["kind"],
  properties: {
    kind: { enum: ["openai", "enclave"], description: "What its workers speak." },
    url: {
      type: "string",
      format: "network-url",
      description:
        "openai: base URL, with or without /v1. enclave: where its worker listens. Absent: not configured.",
    },
    evidence: evidenceSchema,
    status: {
      type: "object",
      additionalProperties: false,
      default: {},
      description: "Where prices and workers are polled.",
      properties: {
        url: {
          type: "string",
          format: "http-url",
          description: "A status document; absent: each model that the network lists is a worker.",
        },
        every: {
          type: "string",
          format: "short-duration",
          default: "10s",
          description: "How often workers and prices are read.",
        },
      },
    },
    price_per_token_nano: {
      type: "string",
      format: "decimal",
      default: "0",
      description: "Price of a token in nano native tokens, where no status tells it.",
    },
    rate: rateSchema,
    headers: {
      type: "object",
      default: {},
      propertyNames: { pattern: "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$" },
      additionalProperties: { type: "string", pattern: "^[\\t -~\\x80-\\xff]*$" },
      description: "Sent to its servers, such as Authorization.",
    },
    connectMs: integer(2_000, [1, day], "Until a connection stands."),
    idleMs: integer(60_000, [1, day], "Until a streamed answer begins, and between two pieces."),
    answerMs: integer(600_000, [1, day], "Until an answer in one piece begins."),
    maxOutputTokens: integer(
      8_192,
      [1, 10_000_000],
      "What a request without max_tokens is reserved for.",
    ),
  },
};
