/**
 * The OpenAPI description (gateway.md, "POST /v1/chat/completions"). request.ts reads requests by hand, which is faster
 * and gives better messages than a schema; tests compare the two.
 */
import type { JsonSchema } from "sluice-gateway/plugin";
import {
  chatErrorOf,
  completionOperation,
  count,
  ignoredHeader,
  modelId,
  objectOf,
  text,
  usedCUMilli,
} from "../completions/operation.ts";
import { maxTemplateLevels, maxTokenLimit } from "../completions/request.ts";

const tokens = { type: ["integer", "null"], minimum: 1, maximum: maxTokenLimit };

const part = {
  description:
    "Parts of type `text` reach the model, and those of type `image_url` if the network passes images.",
  type: "object",
  properties: { type: text },
  required: ["type"],
  anyOf: [
    { properties: { type: { const: "text" }, text }, required: ["text"] },
    { properties: { type: { not: { const: "text" } } } },
  ],
};

const message = {
  type: "object",
  properties: {
    role: { ...text, minLength: 1 },
    name: { type: ["string", "null"] },
    content: {
      anyOf: [
        { type: ["string", "null"] },
        { type: "array", items: {}, maxItems: 0 },
        {
          description: "Only the parts of type `text` are forwarded. At least one is needed.",
          type: "array",
          items: part,
          contains: { properties: { type: { const: "text" } } },
        },
      ],
    },
  },
  required: ["role"],
};

const members: Readonly<Record<string, JsonSchema>> = {
  model: modelId,
  messages: { type: "array", minItems: 1, items: message },
  max_tokens: { description: "Maximum number of tokens in the answer.", ...tokens },
  max_completion_tokens: { description: "Used as `max_tokens` if that is missing.", ...tokens },
  stream: {
    description: "Whether to stream the answer as server-sent events.",
    type: ["boolean", "null"],
  },
  stream_options: {
    type: ["object", "null"],
    properties: {
      include_usage: {
        description: "Whether to send a last chunk with the usage before `[DONE]`.",
        type: ["boolean", "null"],
      },
    },
  },
  chat_template_kwargs: {
    description: `Variables for the chat template of the model, at most ${maxTemplateLevels} levels deep. \`enable_thinking\` is false unless set here.`,
    type: ["object", "null"],
  },
};
const required: ReadonlySet<string> = new Set(["model", "messages"]);

/** Members that are missing in the body are taken from `extra_body`. */
const inExtraBody = Object.entries(members).map(([name, schema]) => {
  const extra = { properties: { [name]: schema } };
  const needed = { type: "object", required: [name], ...extra };
  return {
    if: { properties: { [name]: false } },
    // oxlint-disable-next-line unicorn/no-thenable -- a keyword of JSON Schema
    then: required.has(name)
      ? { properties: { extra_body: needed }, required: ["extra_body"] }
      : { properties: { extra_body: extra } },
  };
});

const body = {
  type: "object",
  properties: {
    ...members,
    extra_body: {
      description: "Members that count as members of the body, unless the body has them itself.",
      type: ["object", "null"],
    },
  },
  allOf: inExtraBody,
};

export const requestSchema = {
  description: "`model` and `messages` are required, here or in `extra_body`.",
  type: "object",
  // Two complete schemas, so that generated types require the members of the usual one.
  anyOf: [
    { ...body, required: [...required] },
    { ...body, required: ["extra_body"] },
  ],
  examples: [
    {
      model: "Demo/Echo-1",
      messages: [{ role: "user", content: "Hello" }],
      max_tokens: 256,
      stream: false,
    },
  ],
};

const usage = objectOf(
  {
    prompt_tokens: count,
    completion_tokens: count,
    total_tokens: count,
    prompt_tokens_details: objectOf({ cached_tokens: count }, []),
    completion_tokens_details: objectOf({ reasoning_tokens: count }, []),
    usedCUMilli,
  },
  ["prompt_tokens", "completion_tokens", "total_tokens", "usedCUMilli"],
);

const completionExample = {
  id: "chatcmpl-7c9e6679-7425-40de-944b-e07fc1f90ae7",
  object: "chat.completion",
  created: 1795253400,
  model: "Demo/Echo-1",
  choices: [{ index: 0, message: { role: "assistant", content: "Hello!" }, finish_reason: "stop" }],
  usage: { prompt_tokens: 5, completion_tokens: 2, total_tokens: 7, usedCUMilli: 21 },
};

const stream = {
  type: "string",
  examples: [
    'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1795253400,"model":"Demo/Echo-1","choices":[{"index":0,"delta":{"content":"Hello!"},"finish_reason":null}]}\n\ndata: [DONE]\n\n',
  ],
};

const choice = objectOf({
  index: { const: 0 },
  message: objectOf(
    {
      role: { const: "assistant" },
      content: {
        description: "Null if the model only refuses or calls tools.",
        type: ["string", "null"],
      },
      refusal: { description: "Why the model does not answer.", ...text },
      reasoning_content: text,
    },
    ["role", "content"],
  ),
  finish_reason: text,
});

const completion = {
  ...objectOf({
    id: { ...text, pattern: "^chatcmpl-" },
    object: { const: "chat.completion" },
    created: { description: "Time in Unix seconds.", ...count },
    model: text,
    choices: { type: "array", minItems: 1, maxItems: 1, items: choice },
    usage,
  }),
  examples: [completionExample],
};

export const operation = completionOperation({
  summary: "Complete a chat",
  description:
    "Chat completions in OpenAI's wire format. Unknown fields are accepted and dropped. The charge is based on the tokens that the worker counts.",
  request: requestSchema,
  answer: {
    description: "The completion, or (with `stream`) its chunks followed by `data: [DONE]`.",
    content: { "application/json": completion, "text/event-stream": stream },
    headers: ignoredHeader("tools, response_format"),
  },
  errors: {
    400: chatErrorOf("invalid_request_error", ["INVALID_REQUEST"], "the request is not valid"),
    404: chatErrorOf(
      "invalid_request_error",
      ["MODEL_NOT_FOUND"],
      'the model "Acme/None-1" does not exist; GET /v1/models lists the models',
    ),
    503: chatErrorOf(
      "internal_error",
      ["MODEL_NOT_AVAILABLE", "UPSTREAM_ERROR"],
      "the model is not available at the moment",
    ),
  },
});
