import assert from "node:assert/strict";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { createOpenResponses } from "@ai-sdk/open-responses";
import {
  APICallError,
  generateText,
  isStepCount,
  jsonSchema,
  Output,
  streamText,
  tool,
  type LanguageModel,
} from "ai";
import type { Api } from "../agents/programs.ts";
import { add, headersOf, schema, sum, type Client, type Target } from "./client.ts";

type Provider = (at: { baseURL: string; apiKey: string }, model: string) => LanguageModel;

function clientOf(name: string, api: Api, provider: Provider, variant?: string): Client {
  return {
    name,
    api,
    ...(variant !== undefined && { variant }),
    at: (target) => callsWith(provider, target),
    read(error) {
      assert.ok(APICallError.isInstance(error), String(error));
      const { statusCode: status, responseHeaders, message, isRetryable: kind } = error;
      return { status, header: headersOf(responseHeaders), message, kind };
    },
    // Whether it would try again. It does not read `X-Should-Retry`.
    refusals: {
      "wrong key": false,
      "missing capability": false,
      "credit used up": true,
      "unknown model": false,
      "request refused by the worker": false,
      "failure of the worker": true,
    },
    rejectsAbort: true,
    readsStreamedInput: true,
  };
}

function callsWith(provider: Provider, { url, key, model }: Target): ReturnType<Client["at"]> {
  const basic = {
    model: provider({ baseURL: `${url}/v1`, apiKey: key }, model),
    prompt: "Hi",
    maxRetries: 0,
    maxOutputTokens: 100,
    providerOptions: {
      // Otherwise, `@ai-sdk/openai` sends only the ids of earlier items, which the gateway does not store.
      openai: { store: false },
      // Otherwise, `@ai-sdk/anthropic` asks models that it does not know by a tool.
      anthropic: { structuredOutputMode: "outputFormat" as const },
    },
  };
  const stream = async (
    onText: (text: string) => void,
    more: Partial<Parameters<typeof streamText>[0]>,
  ) => {
    let failure: unknown;
    const result = streamText({
      ...basic,
      ...more,
      onError: ({ error }) => void (failure ??= error),
    } as Parameters<typeof streamText>[0]);
    for await (const text of result.textStream) onText(text);
    if (failure !== undefined) throw failure;
    return result;
  };
  return {
    async ask() {
      const { text, usage } = await generateText(basic);
      return { text, tokens: [usage.inputTokens, usage.outputTokens] };
    },
    async stream(onText, signal) {
      const result = await stream(onText, { abortSignal: signal });
      const { inputTokens, outputTokens } = await result.usage;
      return { text: await result.text, tokens: [inputTokens, outputTokens] };
    },
    async useTool(how, run) {
      const { name, description, parameters } = add;
      const inputSchema = jsonSchema(parameters as object);
      const execute = (input: unknown): string => (run(input), sum);
      const tools = { [name]: tool({ description, inputSchema, execute }) };
      const more = { tools, stopWhen: isStepCount(2) };
      if (how === "in one piece") return (await generateText({ ...basic, ...more })).text;
      return (await stream(() => {}, more)).text;
    },
    async parse() {
      const output = Output.object({ schema: jsonSchema(schema as object) });
      return (await generateText({ ...basic, output })).output;
    },
  };
}

export const aiSdkClients: readonly Client[] = [
  clientOf("@ai-sdk/openai-compatible", "chat", (at, model) =>
    createOpenAICompatible({
      ...at,
      name: "sluice",
      includeUsage: true,
      supportsStructuredOutputs: true,
    })(model),
  ),
  clientOf("@ai-sdk/openai", "chat", (at, model) => createOpenAI(at).chat(model)),
  clientOf("@ai-sdk/openai", "responses", (at, model) => createOpenAI(at)(model)),
  clientOf("@ai-sdk/open-responses", "responses", ({ baseURL, apiKey }, model) =>
    createOpenResponses({ name: "sluice", url: `${baseURL}/responses`, apiKey })(model),
  ),
  clientOf("@ai-sdk/anthropic", "messages", (at, model) => createAnthropic(at)(model)),
];
