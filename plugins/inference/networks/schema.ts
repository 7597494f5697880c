import type { JsonSchema } from "sluice-gateway/plugin";
import type { Passable } from "sluice-gateway/services";
import { integerSchema } from "sluice-gateway/internal/toolkit";

const day = 86_400_000;

export const passable: readonly Passable[] = [
  "tools",
  "sampling",
  "format",
  "logprobs",
  "images",
  "reasoning",
];
const anyPassable = `(${passable.join("|")})`;

/** Price of one native token in USD: decisions.md section 8. */
export const rateSchema: JsonSchema = {
  type: ["string", "object"],
  format: "decimal-or-document-url",
  description:
    "Price of one native token in USD: a decimal, a URL that ends in a JSON Pointer (#/data/price), or { url, pointer, every, maxAge }.",
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
    maxAge: {
      type: "string",
      format: "short-duration",
      default: "24h",
      description:
        "Time for which the last price counts while the document cannot be read, also after a restart. Then the network is not used.",
    },
  },
};

/** decisions.md section 8 */
const networkSchema: JsonSchema = {
  type: "object",
  description: "One inference network.",
  additionalProperties: false,
  required: ["kind"],
  properties: {
    kind: {
      enum: ["openai"],
      description: "Protocol of the workers.",
    },
    url: {
      type: "string",
      format: "http-or-websocket-url",
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
      type: ["string", "object"],
      format: "decimal",
      default: "0",
      description:
        "Price per token in nano native tokens, if the status document does not have a price: a decimal, or one for each class of tokens.",
      additionalProperties: false,
      required: ["prompt", "completion"],
      properties: {
        prompt: { type: "string", format: "decimal", description: "Price of the prompt." },
        cached: {
          type: "string",
          format: "decimal",
          description:
            "Price of the tokens of the prompt that the worker has in its cache. Default: that of the prompt.",
        },
        completion: { type: "string", format: "decimal", description: "Price of the completion." },
        reasoning: {
          type: "string",
          format: "decimal",
          description: "Price of the tokens of reasoning. Default: that of the completion.",
        },
      },
    },
    rate: rateSchema,
    headers: {
      type: "object",
      default: {},
      propertyNames: { pattern: "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$" },
      additionalProperties: { type: "string", pattern: "^[\\t -~\\x80-\\xff]*$" },
      description: "Headers that are sent to its servers, such as Authorization.",
    },
    connectMs: integerSchema(2_000, [1, day], "Time limit for opening a connection."),
    idleMs: integerSchema(
      60_000,
      [1, day],
      "Time limit until a streamed answer begins, and maximum pause between two chunks of any answer.",
    ),
    answerMs: integerSchema(
      600_000,
      [1, day],
      "Time limit until an answer that is not streamed begins.",
    ),
    maxOutputTokens: integerSchema(
      8_192,
      [1, 10_000_000],
      "Number of output tokens for which credit is reserved if the request has no max_tokens.",
    ),
    passes: {
      type: ["array", "string"],
      uniqueItems: true,
      items: { enum: passable },
      pattern: `^${anyPassable}(, *${anyPassable})*$`,
      default: [],
      description:
        "Parts of requests that its workers get in addition to texts: a list, or text with commas. Everything else is ignored and named in X-Sluice-Ignored.",
    },
    speaks: {
      type: "array",
      uniqueItems: true,
      items: { enum: ["responses", "messages", "count_tokens"] },
      default: [],
      description:
        "For openai, APIs that its workers have themselves. Requests in them are passed through instead of translated to chat completions.",
    },
    affinity: {
      enum: ["session", "none"],
      default: "session",
      description:
        "session: the requests of an agent's session go to the same worker, while it is not too busy.",
    },
    imageTokens: integerSchema(
      4_096,
      [1, 1_000_000],
      "Number of prompt tokens for which credit is reserved per image.",
    ),
    contextTokens: {
      type: "integer",
      minimum: 1,
      maximum: 100_000_000,
      description:
        "Maximum number of prompt tokens that its models read. Without it, credit is reserved for one token per byte of the prompt.",
    },
  },
};

export const networksSchema: JsonSchema = {
  type: "object",
  description: "Inference networks, by name.",
  default: {},
  additionalProperties: networkSchema,
};
