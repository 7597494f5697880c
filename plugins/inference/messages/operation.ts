/** The OpenAPI description of the Messages API. request.ts reads requests by hand, with more precise messages. */
import type { JsonSchema, Operation } from "sluice-gateway/plugin";
import {
  completionOperation,
  count,
  header,
  ignoredHeader,
  modelId,
  objectOf,
  text,
  usedCUMilli,
} from "../completions/operation.ts";
import { maxTokenLimit } from "../completions/request.ts";

const object = { type: "object" };
const optional = { type: ["object", "null"] };

const role = { enum: ["user", "assistant", "system"] };
const content = {
  description: "Blocks of the types `text`, `image`, `thinking`, `tool_use` and `tool_result`.",
  anyOf: [text, { type: "array", items: object }],
};
const requestSchema: JsonSchema = {
  ...object,
  properties: {
    model: modelId,
    max_tokens: { type: "integer", minimum: 1, maximum: maxTokenLimit },
    messages: { type: "array", minItems: 1, items: objectOf({ role, content }) },
    system: { type: ["string", "array", "null"], items: object },
    stream: { type: ["boolean", "null"] },
    tools: { description: "Tools that the client runs.", type: ["array", "null"], items: object },
    tool_choice: optional,
    thinking: optional,
    output_config: optional,
    stop_sequences: { type: ["array", "null"], items: text },
  },
  required: ["model", "messages"],
  examples: [
    { model: "Demo/Echo-1", max_tokens: 256, messages: [{ role: "user", content: "Hello" }] },
  ],
};

const answerSchema: JsonSchema = {
  ...objectOf({
    id: { ...text, pattern: "^msg_" },
    type: { const: "message" },
    role: { const: "assistant" },
    model: text,
    content: { type: "array", items: objectOf({ type: text }) },
    stop_reason: { enum: ["end_turn", "max_tokens", "tool_use", "refusal"] },
    usage: objectOf({ input_tokens: count, output_tokens: count, usedCUMilli }),
  }),
  examples: [
    {
      id: "msg_7c9e6679-7425-40de-944b-e07fc1f90ae7",
      type: "message",
      role: "assistant",
      model: "Demo/Echo-1",
      content: [{ type: "text", text: "Hello!" }],
      stop_reason: "end_turn",
      usage: { input_tokens: 5, output_tokens: 2, usedCUMilli: 21 },
    },
  ],
};
const event = { ...text, examples: ['event: ping\ndata: {"type":"ping"}\n\n'] };

const error = objectOf({ type: text, message: text });
const errorSchema: JsonSchema = {
  ...objectOf({ type: { const: "error" }, error, request_id: { type: ["string", "null"] } }, [
    "type",
    "error",
  ]),
  examples: [{ type: "error", error: { type: "not_found_error", message: "not found" } }],
};

const version = "`2026-10-21` refuses sampling parameters. Any other version is `2023-06-01`.";

export function operationOf(
  summary: string,
  description: string,
  answer: NonNullable<Operation["answers"]>[number],
): Operation {
  return completionOperation({
    summary,
    description,
    headers: { ...object, properties: { "anthropic-version": { description: version, ...text } } },
    request: requestSchema,
    answer,
    errors: { 400: errorSchema, 404: errorSchema, 503: errorSchema },
    refusalBody: errorSchema,
    answerHeaders: { "X-Sluice-Error": header("Code of an error.", "GATEWAY_RATE_LIMITED") },
  });
}

export const messagesOperation = operationOf(
  "Create a message",
  "The Messages API, without state. `max_tokens` is required. The charge is based on the tokens that the worker counts.",
  {
    description: "The message, or (with `stream`) its events up to `message_stop`.",
    content: { "application/json": answerSchema, "text/event-stream": event },
    headers: ignoredHeader("metadata"),
  },
);
