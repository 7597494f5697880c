/** The OpenAPI description of the Responses API, as far as the gateway reads it. */
import { openaiFailure, openaiRefusals } from "../completions/openai-operation.ts";
import type { JsonSchema, Operation } from "sluice-gateway/plugin";
import { maxTokenLimit } from "../completions/request.ts";

const text = { type: "string" };
const count = { type: "integer", minimum: 0 };

function nullable(type: string, description: string): JsonSchema {
  return { description, type: [type, "null"] };
}

const request = {
  type: "object",
  properties: {
    model: { description: "Id of a model that `GET /v1/models` lists.", ...text, minLength: 1 },
    input: {
      description:
        "A text, or items of the types `message`, `function_call`, `function_call_output`, `custom_tool_call`, `custom_tool_call_output` and `reasoning`.",
      anyOf: [text, { type: "array", minItems: 1, items: { type: "object" } }],
    },
    instructions: nullable("string", "System text before the input."),
    max_output_tokens: {
      ...nullable("integer", "Maximum number of tokens in the answer."),
      minimum: 1,
      maximum: maxTokenLimit,
    },
    stream: nullable("boolean", "Whether to stream the answer as server-sent events."),
    tools: {
      ...nullable("array", "Tools of the types `function` and `custom`. Others are ignored."),
      items: { type: "object" },
    },
    tool_choice: { description: "`auto`, `none`, `required`, or a tool of the request." },
    parallel_tool_calls: nullable("boolean", "Whether one answer may call several tools."),
    text: nullable("object", "`format`: text, `json_object`, or `json_schema`."),
    reasoning: nullable("object", "`effort`: how much the model thinks."),
    include: {
      ...nullable("array", "`reasoning.encrypted_content` returns reasoning sealed, too."),
      items: text,
    },
    temperature: nullable("number", "Reaches the model if the network passes `sampling`."),
    top_p: nullable("number", "Reaches the model if the network passes `sampling`."),
    metadata: nullable("object", "Texts, which the response repeats."),
    prompt_cache_key: nullable("string", "Name of the session, for the choice of a worker."),
  },
  required: ["model", "input"],
  examples: [{ model: "Demo/Echo-1", input: "Hello", max_output_tokens: 256 }],
};

const usage = {
  type: "object",
  properties: {
    input_tokens: count,
    input_tokens_details: { type: "object", properties: { cached_tokens: count } },
    output_tokens: count,
    output_tokens_details: { type: "object", properties: { reasoning_tokens: count } },
    total_tokens: count,
    usedCUMilli: { description: "Cost of the answer in milli-CU.", ...count },
  },
  required: ["input_tokens", "output_tokens", "total_tokens", "usedCUMilli"],
};

const response = {
  type: "object",
  properties: {
    id: { ...text, pattern: "^resp_" },
    object: { const: "response" },
    created_at: { description: "Time in Unix seconds.", ...count },
    status: { enum: ["completed", "incomplete", "failed"] },
    model: text,
    output: {
      description:
        "Items of the types `message`, `reasoning`, `function_call`, `custom_tool_call`.",
      type: "array",
      items: { type: "object", properties: { type: text, id: text }, required: ["type", "id"] },
    },
    usage,
  },
  required: ["id", "object", "created_at", "status", "model", "output", "usage"],
  examples: [
    {
      id: "resp_7c9e6679-7425-40de-944b-e07fc1f90ae7",
      object: "response",
      created_at: 1795253400,
      status: "completed",
      model: "Demo/Echo-1",
      output: [
        { type: "message", id: "msg_1", content: [{ type: "output_text", text: "Hello!" }] },
      ],
      usage: { input_tokens: 5, output_tokens: 2, total_tokens: 7, usedCUMilli: 21 },
    },
  ],
};

const stream = {
  ...text,
  examples: [
    'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","sequence_number":4,"item_id":"msg_1_0","output_index":0,"content_index":0,"delta":"Hello!","logprobs":[]}\n\n',
  ],
};

export const operation: Operation = {
  summary: "Create a response",
  description:
    "OpenAI's Responses API without state: send the whole conversation as `input`. The charge is based on the tokens that the worker counts.",
  path: {
    type: "object",
    properties: { network: { description: "Network whose workers may answer.", ...text } },
  },
  body: { content: { "application/json": request }, required: true },
  answers: {
    200: {
      description: "The response, or (with `stream`) its events up to `response.completed`.",
      content: { "application/json": response, "text/event-stream": stream },
      headers: {
        "X-Sluice-Ignored": {
          description: "Names of members that were ignored, such as `store, tools.web_search`.",
          schema: { type: "string", examples: ["store, tools.web_search"] },
        },
      },
    },
    400: openaiFailure("The request is not valid, or has a member that cannot be served.", [
      "invalid_value",
      "unsupported_parameter",
      "context_length_exceeded",
      "invalid_request",
    ]),
    404: openaiFailure("No network lists the model.", ["model_not_found"]),
    503: openaiFailure("No worker can answer at the moment.", ["server_error"]),
  },
  refusals: [{ code: "GATEWAY_NOT_FOUND", description: "The network does not exist." }],
  ...openaiRefusals,
};
