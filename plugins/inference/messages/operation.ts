/** The OpenAPI description of the Messages API. request.ts reads requests by hand, with more precise messages. */
import type { JsonSchema, Operation } from "sluice-gateway/plugin";
import { maxTokenLimit } from "../completions/request.ts";
import { errorTypes } from "./errors.ts";

const text = { type: "string" };
const object = { type: "object" };
const count = { type: "integer", minimum: 0 };
const content = {
  anyOf: [
    text,
    { type: "array", items: { ...object, properties: { type: text }, required: ["type"] } },
  ],
};

const counted: Readonly<Record<string, JsonSchema>> = {
  model: { description: "Id of a model that `GET /v1/models` lists.", ...text, minLength: 1 },
  system: content,
  messages: {
    type: "array",
    minItems: 1,
    items: {
      ...object,
      properties: { role: { enum: ["user", "assistant", "system"] }, content },
      required: ["role", "content"],
    },
  },
  tools: {
    description: "Tools that the client runs. The network of the model must pass them on.",
    type: ["array", "null"],
    items: { ...object, required: ["name", "input_schema"] },
  },
  tool_choice: { type: ["object", "null"] },
  thinking: { type: ["object", "null"] },
  output_config: { type: ["object", "null"] },
};

const members: typeof counted = {
  ...counted,
  max_tokens: {
    description: "Maximum number of tokens in the answer.",
    type: "integer",
    minimum: 1,
    maximum: maxTokenLimit,
  },
  stream: {
    description: "Whether to stream the answer as server-sent events.",
    type: ["boolean", "null"],
  },
  stop_sequences: { type: ["array", "null"], items: text },
  temperature: { type: ["number", "null"] },
};

const example = {
  model: "Provider/Name-1",
  max_tokens: 256,
  messages: [{ role: "user", content: "Hello" }],
};

const errorSchema: JsonSchema = {
  ...object,
  properties: {
    type: { const: "error" },
    error: {
      ...object,
      properties: { type: { enum: errorTypes }, message: text },
      required: ["type", "message"],
    },
    request_id: { type: ["string", "null"] },
  },
  required: ["type", "error"],
  examples: [
    {
      type: "error",
      error: { type: "invalid_request_error", message: "messages: expected a list" },
      request_id: "0e4f2c1a",
    },
  ],
};
const errorContent = { "application/json": errorSchema };

const message: JsonSchema = {
  ...object,
  properties: {
    id: { ...text, pattern: "^msg_" },
    type: { const: "message" },
    role: { const: "assistant" },
    model: text,
    content: {
      type: "array",
      items: { ...object, properties: { type: { enum: ["thinking", "text", "tool_use"] } } },
    },
    stop_reason: { enum: ["end_turn", "max_tokens", "tool_use", "refusal"] },
    stop_sequence: { type: "null" },
    usage: {
      ...object,
      properties: {
        input_tokens: count,
        cache_creation_input_tokens: count,
        cache_read_input_tokens: count,
        output_tokens: count,
        usedCUMilli: { description: "Cost of the answer in milli-CU.", ...count },
      },
      required: ["input_tokens", "output_tokens", "usedCUMilli"],
    },
  },
  required: ["id", "type", "role", "model", "content", "stop_reason", "usage"],
  examples: [
    {
      id: "msg_7c9e6679-7425-40de-944b-e07fc1f90ae7",
      type: "message",
      role: "assistant",
      model: "Provider/Name-1",
      content: [{ type: "text", text: "Hello!" }],
      stop_reason: "end_turn",
      stop_sequence: null,
      usage: {
        input_tokens: 5,
        cache_creation_input_tokens: 0,
        cache_read_input_tokens: 0,
        output_tokens: 2,
        usedCUMilli: 21,
      },
    },
  ],
};

const stream = {
  type: "string",
  examples: ['event: message_stop\ndata: {"type":"message_stop"}\n\n'],
};

function operationOf(
  properties: typeof counted,
  required: readonly string[],
  parts: Pick<Operation, "summary" | "description"> & Required<Pick<Operation, "answers">>,
): Operation {
  return {
    ...parts,
    path: {
      ...object,
      properties: { network: { description: "Network whose workers may answer.", ...text } },
    },
    headers: {
      ...object,
      properties: {
        "anthropic-version": {
          description:
            "`2026-10-21` refuses sampling parameters. Any other version is `2023-06-01`.",
          ...text,
        },
      },
    },
    body: {
      content: { "application/json": { ...object, properties, required, examples: [example] } },
      required: true,
    },
    answers: {
      ...parts.answers,
      400: { description: "The request is not valid.", content: errorContent },
      404: {
        description: "No network lists the model. The message names it.",
        content: errorContent,
      },
      503: {
        description: "No worker can answer at the moment.",
        content: errorContent,
        headers: {
          "Retry-After": {
            description: "Minimum number of seconds to wait before a retry.",
            schema: { type: "integer" },
          },
        },
      },
    },
    refusals: [{ code: "GATEWAY_NOT_FOUND", description: "The network does not exist." }],
    refusalBody: errorSchema,
    answerHeaders: {
      "X-Sluice-Error": {
        description: "Code of an error, for programs.",
        schema: { ...text, examples: ["GATEWAY_RATE_LIMITED"] },
      },
    },
  };
}

export const messagesOperation: Operation = operationOf(
  members,
  ["model", "max_tokens", "messages"],
  {
    summary: "Create a message",
    description:
      "The Messages API, without state. What has no effect is named in `X-Sluice-Ignored`. The charge is based on the tokens that the worker counts.",
    answers: {
      200: {
        description: "The message, or (with `stream`) its events up to `message_stop`.",
        content: { "application/json": message, "text/event-stream": stream },
        headers: {
          "X-Sluice-Ignored": {
            description: "Names of members of the request that have no effect.",
            schema: { type: "string", examples: ["metadata, cache_control"] },
          },
        },
      },
    },
  },
);

export const countOperation: Operation = operationOf(counted, ["model", "messages"], {
  summary: "Estimate the tokens of a message",
  description:
    "The estimate is a third of the bytes of all texts and tools, 8 per message, and the network's `imageTokens` per image. It is free.",
  answers: {
    200: {
      description: "The estimate.",
      content: {
        "application/json": {
          ...object,
          properties: { input_tokens: count },
          required: ["input_tokens"],
          examples: [{ input_tokens: 14 }],
        },
      },
      headers: {
        "X-Sluice-Estimate": {
          description: "Names the members of the answer that are estimates.",
          schema: { type: "string", examples: ["input_tokens"] },
        },
      },
    },
  },
});
