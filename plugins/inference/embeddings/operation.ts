import type { JsonSchema } from "sluice-gateway/plugin";
import {
  completionOperation,
  count,
  ignoredHeader,
  modelId,
  objectOf,
  openaiFailures,
  text,
  usedCUMilli,
} from "../completions/operation.ts";
import { formats, maxDimensions, maxInputs } from "./request.ts";

const tokens = { type: "array", minItems: 1, items: count };
const input = {
  description: "One text or list of tokens, or a list of them.",
  anyOf: [
    text,
    tokens,
    { type: "array", minItems: 1, maxItems: maxInputs, items: { anyOf: [text, tokens] } },
  ],
};

export const requestSchema: JsonSchema = {
  type: "object",
  properties: {
    model: modelId,
    input,
    encoding_format: { enum: [...formats, null] },
    dimensions: { type: ["integer", "null"], minimum: 1, maximum: maxDimensions },
    user: { type: ["string", "null"] },
  },
  required: ["model", "input"],
  examples: [{ model: "Provider/Embed-1", input: ["Hello"], encoding_format: "float" }],
};

const answer: JsonSchema = {
  ...objectOf({
    object: { const: "list" },
    data: {
      description: "The embeddings, as the worker sent them.",
      type: "array",
      items: {
        type: "object",
        properties: {
          object: { const: "embedding" },
          index: count,
          embedding: {
            description: "Numbers, or a text if `encoding_format` is `base64`.",
            anyOf: [{ type: "array", items: { type: "number" } }, text],
          },
        },
      },
    },
    model: text,
    usage: objectOf({ prompt_tokens: count, total_tokens: count, usedCUMilli }),
  }),
  examples: [
    {
      object: "list",
      data: [{ object: "embedding", index: 0, embedding: [0.25, -0.5] }],
      model: "Provider/Embed-1",
      usage: { prompt_tokens: 2, total_tokens: 2, usedCUMilli: 6 },
    },
  ],
};

export const operation = completionOperation({
  summary: "Compute embeddings",
  description:
    "Embeddings in OpenAI's wire format. Unknown fields are dropped and named in `X-Sluice-Ignored`. The charge is based on the tokens of the inputs.",
  request: requestSchema,
  answer: {
    description: "The embeddings of the inputs.",
    content: { "application/json": answer },
    headers: ignoredHeader("input_type"),
  },
  ...openaiFailures("invalid_value", "invalid_request"),
});
