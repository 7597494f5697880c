/**
 * What chat completions take and answer (gateway.md, "POST /v1/chat/completions"). The request is read by hand in
 * request.ts, faster and with better messages than a schema's; the tests hold the two against each other.
 */
import type { JsonSchema, Operation } from "sluice-gateway/plugin";
import { mostLevels, mostMaxTokens } from "./request.ts";

const text = { type: "string" };
const count = { type: "integer", minimum: 0 };
const tokens = { type: ["integer", "null"], minimum: 1, maximum: mostMaxTokens };

const part = {
  description: "Parts of type `text` are for the model; others are dropped.",
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
    content: { anyOf: [{ type: ["string", "null"] }, { type: "array", items: part }] },
  },
  required: ["role"],
};

const members: Readonly<Record<string, JsonSchema>> = {
  model: { description: "A model's id, as GET /v1/models lists it.", ...text, minLength: 1 },
  messages: { type: "array", minItems: 1, items: message },
  max_tokens: { description: "The most tokens of the answer.", ...tokens },
  max_completion_tokens: { description: "The same, where max_tokens is absent.", ...tokens },
  stream: { description: "Answer as server-sent events.", type: ["boolean", "null"] },
  stream_options: {
    type: ["object", "null"],
    properties: {
      include_usage: {
        description: "A last chunk with the usage before `[DONE]`.",
        type: ["boolean", "null"],
      },
    },
  },
  chat_template_kwargs: {
    description: `For the model's chat template, at most ${mostLevels} levels deep; \`enable_thinking\` is false unless set here.`,
    type: ["object", "null"],
  },
};
const required: ReadonlySet<string> = new Set(["model", "messages"]);

/** What the body leaves out is looked for in `extra_body`. */
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

export const requestSchema = {
  description: "`model` and `messages` are required, here or in `extra_body`.",
  type: "object",
  properties: {
    ...members,
    extra_body: {
      description: "Its members count like the body's own where those are absent.",
      type: ["object", "null"],
    },
  },
  allOf: inExtraBody,
};

const usage = {
  type: "object",
  properties: {
    prompt_tokens: count,
    completion_tokens: count,
    total_tokens: count,
    prompt_tokens_details: { type: "object", properties: { cached_tokens: count } },
    completion_tokens_details: { type: "object", properties: { reasoning_tokens: count } },
    usedCUMilli: { description: "What the answer cost, milli-CU.", ...count },
  },
  required: ["prompt_tokens", "completion_tokens", "total_tokens", "usedCUMilli"],
};

const completion = {
  type: "object",
  properties: {
    id: { ...text, pattern: "^chatcmpl-" },
    object: { const: "chat.completion" },
    created: { description: "Unix seconds.", ...count },
    model: text,
    choices: {
      type: "array",
      minItems: 1,
      maxItems: 1,
      items: {
        type: "object",
        properties: {
          index: { const: 0 },
          message: {
            type: "object",
            properties: { role: { const: "assistant" }, content: text, reasoning_content: text },
            required: ["role", "content"],
          },
          finish_reason: text,
        },
        required: ["index", "message", "finish_reason"],
      },
    },
    usage,
  },
  required: ["id", "object", "created", "model", "choices", "usage"],
};

function failure(type: string, codes: readonly string[]): JsonSchema {
  return {
    type: "object",
    properties: {
      error: {
        type: "object",
        properties: { message: text, type: { const: type }, code: { enum: codes } },
        required: ["message", "type", "code"],
      },
    },
    required: ["error"],
  };
}

export const operation: Operation = {
  summary: "Complete a chat",
  description:
    "OpenAI's chat completions. Unknown fields are taken and dropped. Charged by the tokens that the worker counts.",
  path: {
    type: "object",
    properties: { network: { description: "The network whose workers may answer.", ...text } },
  },
  body: { content: { "application/json": requestSchema }, required: true },
  answers: {
    200: {
      description: "The completion; with `stream` its chunks, ended by `data: [DONE]`",
      content: { "application/json": completion, "text/event-stream": text },
      headers: {
        "X-Sluice-Ignored": {
          description:
            "Fields of the request that no worker got, such as `tools, response_format`.",
          schema: text,
        },
      },
    },
    400: {
      description: "The request is not valid",
      content: { "application/json": failure("invalid_request_error", ["INVALID_REQUEST"]) },
    },
    404: {
      description: "No network lists the model; the message names it",
      content: { "application/json": failure("invalid_request_error", ["MODEL_NOT_FOUND"]) },
    },
    503: {
      description: "No worker can answer",
      content: {
        "application/json": failure("internal_error", ["MODEL_NOT_AVAILABLE", "UPSTREAM_ERROR"]),
      },
      headers: { "Retry-After": { description: "Seconds.", schema: { type: "integer" } } },
    },
  },
  refusals: [{ code: "GATEWAY_NOT_FOUND", description: "There is no such network" }],
};
