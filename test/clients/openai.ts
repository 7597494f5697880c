/** OpenAI's SDK, over chat completions and over the Responses API. */
import assert from "node:assert/strict";
import { APIError, OpenAI } from "openai";
import type { ChatCompletionMessageParam } from "openai/resources/chat/completions";
import type { ResponseInputItem } from "openai/resources/responses/responses";
import { add, headersOf, schema, sum, type Calls, type Client, type Target } from "./client.ts";

function sdkAt({ url, key }: Target): OpenAI {
  return new OpenAI({ baseURL: `${url}/v1`, apiKey: key, maxRetries: 0 });
}

function chatAt(target: Target): Calls {
  const { completions } = sdkAt(target).chat;
  const hi: ChatCompletionMessageParam = { role: "user", content: "Hi" };
  const basic = {
    model: target.model,
    messages: [hi] as ChatCompletionMessageParam[],
    max_completion_tokens: 100,
  };
  const tools = [{ type: "function" as const, function: { ...add, strict: true } }];
  const format = { type: "json_schema", json_schema: { name: "answer", schema, strict: true } };
  return {
    async ask() {
      const { choices, usage } = await completions.create(basic);
      const tokens = [usage?.prompt_tokens, usage?.completion_tokens] as const;
      return { text: choices[0]?.message.content ?? "", tokens };
    },
    async stream(onText, signal) {
      const runner = completions.stream(
        { ...basic, stream_options: { include_usage: true } },
        { signal },
      );
      runner.on("content", (text) => onText(text));
      const { choices, usage } = await runner.finalChatCompletion();
      const tokens = [usage?.prompt_tokens, usage?.completion_tokens] as const;
      return { text: choices[0]?.message.content ?? "", tokens };
    },
    async useTool(how, run) {
      const answer = (body: typeof basic & { tools: typeof tools }) =>
        how === "streamed"
          ? completions.stream(body).finalChatCompletion()
          : completions.create(body);
      const first = await answer({ ...basic, tools });
      const { message = assert.fail() } = first.choices[0] ?? {};
      const results = (message.tool_calls ?? []).map((call) => {
        assert.ok(call.type === "function" && call.function.name === add.name);
        run(JSON.parse(call.function.arguments));
        return { role: "tool" as const, tool_call_id: call.id, content: sum };
      });
      if (results.length === 0) return message.content ?? "";
      const last = await answer({ ...basic, tools, messages: [hi, message, ...results] });
      return last.choices[0]?.message.content ?? "";
    },
    async parse() {
      const { choices } = await completions.create({
        ...basic,
        response_format: format as { type: "json_schema"; json_schema: { name: string } },
      });
      return JSON.parse(choices[0]?.message.content ?? "");
    },
  };
}

function responsesAt(target: Target): Calls {
  const { responses } = sdkAt(target);
  const hi: ResponseInputItem = { role: "user", content: "Hi" };
  const basic = { model: target.model, max_output_tokens: 100 };
  const tools = [{ type: "function" as const, ...add, strict: true }];
  return {
    async ask() {
      const { output_text: text, usage } = await responses.create({ ...basic, input: "Hi" });
      return { text, tokens: [usage?.input_tokens, usage?.output_tokens] };
    },
    async stream(onText, signal) {
      const stream = responses.stream({ ...basic, input: "Hi" }, { signal });
      stream.on("response.output_text.delta", ({ delta }) => onText(delta));
      const { output_text: text, usage, status, error } = await stream.finalResponse();
      // This SDK returns a failed response.
      if (status === "failed") throw new Error(error?.message);
      return { text, tokens: [usage?.input_tokens, usage?.output_tokens] };
    },
    async useTool(how, run) {
      const answer = (input: ResponseInputItem[]) =>
        how === "streamed"
          ? responses.stream({ ...basic, input, tools }).finalResponse()
          : responses.create({ ...basic, input, tools });
      const first = await answer([hi]);
      const results = first.output.flatMap((item): ResponseInputItem[] => {
        if (item.type !== "function_call") return [item as ResponseInputItem];
        assert.equal(item.name, add.name);
        run(JSON.parse(item.arguments));
        return [item, { type: "function_call_output", call_id: item.call_id, output: sum }];
      });
      return (await answer([hi, ...results])).output_text;
    },
    async parse() {
      const format = { type: "json_schema", name: "answer", schema, strict: true } as const;
      const { output_parsed: parsed } = await responses.parse({
        ...basic,
        input: "Hi",
        text: { format },
      });
      return parsed;
    },
  };
}

/** Shared with `@openai/agents`, which throws the errors of this SDK. */
export function readOpenAI(error: unknown): ReturnType<Client["read"]> {
  assert.ok(error instanceof APIError, String(error));
  const { status, headers, message, code, type } = error as APIError;
  const kind = [error.constructor.name, code ?? undefined, type];
  return { status, header: headersOf(headers), message, kind };
}

/** The class, `code` and `type` of each error. The gateway's own refusals have neither over chat completions. */
export const chatRefusals: Client["refusals"] = {
  "wrong key": ["AuthenticationError", undefined, undefined],
  "missing capability": ["PermissionDeniedError", undefined, undefined],
  "credit used up": ["RateLimitError", undefined, undefined],
  "unknown model": ["NotFoundError", "MODEL_NOT_FOUND", "invalid_request_error"],
  "request refused by the worker": ["BadRequestError", "INVALID_REQUEST", "invalid_request_error"],
  "failure of the worker": ["InternalServerError", "UPSTREAM_ERROR", "internal_error"],
};
export const responsesRefusals: Client["refusals"] = {
  "wrong key": ["AuthenticationError", "invalid_api_key", "invalid_request_error"],
  "missing capability": ["PermissionDeniedError", "permission_denied", "permission_error"],
  "credit used up": ["RateLimitError", "insufficient_quota", "usage_limit_reached"],
  "unknown model": ["NotFoundError", "model_not_found", "invalid_request_error"],
  "request refused by the worker": ["BadRequestError", "invalid_request", "invalid_request_error"],
  "failure of the worker": ["InternalServerError", "server_error", "server_error"],
};

const shared = {
  name: "openai",
  read: readOpenAI,
  rejectsAbort: true,
  readsStreamedInput: true,
};

export const openaiClients: readonly Client[] = [
  { ...shared, api: "chat", at: chatAt, refusals: chatRefusals },
  { ...shared, api: "responses", at: responsesAt, refusals: responsesRefusals },
];
