/** The OpenAPI description of embeddings. */
import type { JsonSchema, Operation } from "sluice-gateway/plugin";
import { openaiFailure, openaiRefusals } from "../completions/openai-operation.ts";
import { formats, maxDimensions, maxInputs } from "./request.ts";

const text = { type: "string" };
const count = { type: "integer", minimum: 0 };
const tokens = { type: "array", minItems: 1, items: count };

export const requestSchema: JsonSchema = {
  type: "object",
  properties: {
    model: { description: "Id of a model that `GET /v1/models` lists.", ...text, minLength: 1 },
    input: {
      description: "One text or list of tokens, or a list of them.",
      anyOf: [
        text,
        tokens,
        { type: "array", minItems: 1, maxItems: maxInputs, items: { anyOf: [text, tokens] } },
      ],
    },
    encoding_format: { enum: [...formats, null] },
    dimensions: { type: ["integer", "null"], minimum: 1, maximum: maxDimensions },
    user: { type: ["string", "null"] },
  },
  required: ["model", "input"],
  examples: [{ model: "Provider/Embed-1", input: ["Hello"], encoding_format: "float" }],
};

const answer: JsonSchema = {
  type: "object",
  properties: {
    object: { const: "list" },
    data: { description: "The embeddings, as the worker sent them.", type: "array" },
    model: text,
    usage: {
      description: "`usedCUMilli` is the cost of the answer in milli-CU.",
      type: "object",
      properties: { prompt_tokens: count, total_tokens: count, usedCUMilli: count },
      required: ["prompt_tokens", "total_tokens", "usedCUMilli"],
    },
  },
  required: ["object", "data", "model", "usage"],
  examples: [
    {
      object: "list",
      data: [{ object: "embedding", index: 0, embedding: [0.25, -0.5] }],
      model: "Provider/Embed-1",
      usage: { prompt_tokens: 2, total_tokens: 2, usedCUMilli: 6 },
    },
  ],
};

export const operation: Operation = {
  summary: "Compute embeddings",
  description:
    "Embeddings in OpenAI's wire format. Unknown fields are dropped and named in `X-Sluice-Ignored`. The charge is based on the tokens of the inputs.",
  path: {
    type: "object",
    properties: { network: { description: "Network whose workers may answer.", ...text } },
  },
  body: { content: { "application/json": requestSchema }, required: true },
  answers: {
    200: { description: "The embeddings of the inputs.", content: { "application/json": answer } },
    400: openaiFailure("The request is not valid.", ["invalid_value", "invalid_request"]),
    404: openaiFailure("No network lists the model, or its network has no embeddings.", [
      "model_not_found",
    ]),
    503: openaiFailure("No worker can answer at the moment.", ["server_error"]),
  },
  refusals: [{ code: "GATEWAY_NOT_FOUND", description: "The network does not exist." }],
  ...openaiRefusals,
};
