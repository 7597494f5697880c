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
import { maxTokenLimit } from "../completions/request.ts";

function nullable(type: string, description: string): JsonSchema {
  return { description, type: [type, "null"] };
}

const request = {
  type: "object",
  properties: {
    model: modelId,
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

const usage = objectOf({
  input_tokens: count,
  input_tokens_details: objectOf({ cached_tokens: count }),
  output_tokens: count,
  output_tokens_details: objectOf({ reasoning_tokens: count }),
  total_tokens: count,
  usedCUMilli,
});

const response = {
  ...objectOf({
    id: { ...text, pattern: "^resp_" },
    object: { const: "response" },
    created_at: { description: "Time in Unix seconds.", ...count },
    status: { enum: ["completed", "incomplete", "failed"] },
    model: text,
    output: {
      description:
        "Items of the types `message`, `reasoning`, `function_call`, `custom_tool_call`.",
      type: "array",
      items: objectOf({ type: text, id: text }),
    },
    usage,
  }),
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
      usage: {
        input_tokens: 5,
        input_tokens_details: { cached_tokens: 0 },
        output_tokens: 2,
        output_tokens_details: { reasoning_tokens: 0 },
        total_tokens: 7,
        usedCUMilli: 21,
      },
    },
  ],
};

const stream = {
  ...text,
  examples: [
    'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","sequence_number":4,"item_id":"msg_1_0","output_index":0,"content_index":0,"delta":"Hello!","logprobs":[]}\n\n',
  ],
};

export const operation = completionOperation({
  summary: "Create a response",
  description:
    "OpenAI's Responses API without state: send the whole conversation as `input`. The charge is based on the tokens that the worker counts.",
  request,
  answer: {
    description: "The response, or (with `stream`) its events up to `response.completed`.",
    content: { "application/json": response, "text/event-stream": stream },
    headers: ignoredHeader("store, tools.web_search"),
  },
  ...openaiFailures(
    "invalid_value",
    "unsupported_parameter",
    "context_length_exceeded",
    "invalid_request",
  ),
});
