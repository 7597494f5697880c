/** Anthropic's SDK, in both versions of the API and with both headers for the key. */
import assert from "node:assert/strict";
import Anthropic, { APIError } from "@anthropic-ai/sdk";
import { jsonSchemaOutputFormat } from "@anthropic-ai/sdk/helpers/json-schema";
import type { MessageParam, ToolResultBlockParam } from "@anthropic-ai/sdk/resources/messages";
import { add, headersOf, schema, sum, type Calls, type Client, type Target } from "./client.ts";

type Header = "Bearer" | "x-api-key";
type Version = "2023-06-01" | "2026-10-21";

function sdkAt({ url, key }: Target, header: Header, version: Version): Anthropic {
  return new Anthropic({
    baseURL: url,
    authToken: null,
    apiKey: header === "Bearer" ? key : null,
    maxRetries: 0,
    defaultHeaders: {
      "anthropic-version": version,
      ...(header === "x-api-key" && { "x-api-key": key, authorization: null }),
    },
  });
}

function callsAt(target: Target, header: Header, version: Version): Calls {
  const { messages } = sdkAt(target, header, version);
  const hi: MessageParam = { role: "user", content: "Hi" };
  const basic = { model: target.model, max_tokens: 100, messages: [hi] };
  const { name, description, parameters } = add;
  const input_schema = { ...parameters, required: [...parameters.required] };
  const tools = [{ name, description, input_schema }];
  return {
    async ask() {
      const { content, usage } = await messages.create(basic);
      return { text: textOf(content), tokens: [usage.input_tokens, usage.output_tokens] };
    },
    async stream(onText, signal) {
      const stream = messages.stream(basic, { signal });
      stream.on("text", (text) => onText(text));
      const { content, usage } = await stream.finalMessage();
      return { text: textOf(content), tokens: [usage.input_tokens, usage.output_tokens] };
    },
    async useTool(how, run) {
      const answer = (more: MessageParam[]) => {
        const body = { ...basic, tools, messages: [hi, ...more] };
        return how === "streamed" ? messages.stream(body).finalMessage() : messages.create(body);
      };
      const { content } = await answer([]);
      const results = content.flatMap((block): ToolResultBlockParam[] => {
        if (block.type !== "tool_use") return [];
        assert.equal(block.name, add.name);
        run(block.input);
        return [{ type: "tool_result", tool_use_id: block.id, content: sum }];
      });
      const last = await answer([
        { role: "assistant", content },
        { role: "user", content: results },
      ]);
      return textOf(last.content);
    },
    async parse() {
      const format = jsonSchemaOutputFormat(schema);
      return (await messages.parse({ ...basic, output_config: { format } })).parsed_output;
    },
  };
}

function textOf(content: readonly Anthropic.ContentBlock[]): string {
  return content.map((block) => (block.type === "text" ? block.text : "")).join("");
}

function clientOf(header: Header, version: Version): Client {
  return {
    name: "@anthropic-ai/sdk",
    api: "messages",
    variant: `${header}, version ${version}`,
    at: (target) => callsAt(target, header, version),
    read(error) {
      assert.ok(error instanceof APIError, String(error));
      const { status, headers, message, type } = error as APIError;
      return { status, header: headersOf(headers), message, kind: [error.constructor.name, type] };
    },
    refusals: {
      "wrong key": ["AuthenticationError", "authentication_error"],
      "missing capability": ["PermissionDeniedError", "permission_error"],
      "credit used up": ["RateLimitError", "rate_limit_error"],
      "unknown model": ["NotFoundError", "not_found_error"],
      "request refused by the worker": ["BadRequestError", "invalid_request_error"],
      "failure of the worker": ["ServiceUnavailableError", "overloaded_error"],
    },
    rejectsAbort: true,
    readsStreamedInput: true,
  };
}

export const anthropicClients: readonly Client[] = [
  clientOf("Bearer", "2026-10-21"),
  clientOf("Bearer", "2023-06-01"),
  clientOf("x-api-key", "2026-10-21"),
  clientOf("x-api-key", "2023-06-01"),
];
