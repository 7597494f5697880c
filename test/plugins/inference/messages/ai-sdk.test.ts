/** Checks the Messages API with Vercel's `ai` and `@ai-sdk/anthropic`, which sends x-api-key and version 2023-06-01. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { createAnthropic } from "@ai-sdk/anthropic";
import { generateText, jsonSchema, stepCountIs, streamText, tool, type LanguageModel } from "ai";
import { model } from "../chat/gateway.ts";
import { deltas, message, startMessages, type MessagesGateway } from "./gateway.ts";

let gateway: MessagesGateway;
before(async () => {
  gateway = await startMessages();
});
after(() => gateway[Symbol.asyncDispose]());

function modelOf(apiKey = gateway.gateway.key, id = model): LanguageModel {
  return createAnthropic({ baseURL: `${gateway.gateway.url}/v1`, apiKey })(id);
}
const ask = { prompt: "Hi", maxRetries: 0, maxOutputTokens: 100 };

describe("the ai SDK with @ai-sdk/anthropic", { timeout: 60_000 }, () => {
  it("reads a message, with cached tokens as part of the input", async () => {
    const usage = {
      prompt_tokens: 9,
      completion_tokens: 2,
      prompt_tokens_details: { cached_tokens: 6 },
    };
    gateway.worker.script(message({ content: "Hello" }, "stop", usage));
    const result = await generateText({ model: modelOf(), ...ask });
    assert.equal(result.text, "Hello");
    assert.equal(result.finishReason, "stop");
    assert.deepEqual([result.usage.inputTokens, result.usage.outputTokens], [9, 2]);
  });

  it("runs a tool in a stream and sends its result and the reasoning", async () => {
    const call = (text: string, more: object = {}): object => ({
      tool_calls: [{ index: 0, ...more, function: { arguments: text, ...more } }],
    });
    gateway.worker.script(
      deltas(
        [{ reasoning_content: "Hm" }, call('{"n"', { id: "c1", name: "add" }), call(":2}")],
        "tool_calls",
      ),
    );
    const add = tool({
      inputSchema: jsonSchema<{ n: number }>({
        type: "object",
        properties: { n: { type: "number" } },
      }),
      execute: ({ n }) => n + 1,
    });
    const result = streamText({
      model: modelOf(),
      ...ask,
      tools: { add },
      stopWhen: stepCountIs(3),
      providerOptions: { anthropic: { thinking: { type: "enabled", budgetTokens: 50 } } },
    });
    assert.equal(await result.text, "Hello world");
    const steps = await result.steps;
    assert.deepEqual(
      steps.map(({ finishReason }) => finishReason),
      ["tool-calls", "stop"],
    );
    assert.equal(steps[0]?.reasoningText, "Hm");
    const { messages } = gateway.lastBody();
    assert.equal(messages[1].reasoning_content, "Hm");
    assert.deepEqual(messages[1].tool_calls[0].function, { name: "add", arguments: '{"n":2}' });
    assert.deepEqual(messages[2], { role: "tool", content: "3", tool_call_id: "c1" });
  });
});
