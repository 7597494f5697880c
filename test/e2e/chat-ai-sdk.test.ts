/** Checks the chat surface with Vercel's `ai` and `@ai-sdk/openai-compatible`. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, jsonSchema, streamText, tool, type LanguageModel } from "ai";
import { streamed } from "../plugins/inference/networks/worker-scripts.ts";
import { tokenMilli } from "../plugins/inference/chat/gateway.ts";
import { startChatGateway, type ChatTestGateway } from "./chat-clients.ts";

const prompt = "Hi";

let gateway: ChatTestGateway;
before(async () => {
  gateway = await startChatGateway();
});
after(() => gateway[Symbol.asyncDispose]());

/** Reads the cost of a chat from `usage`, as this provider passes it on. */
interface RawUsage {
  readonly usedCUMilli?: number;
}

function modelOf(apiKey: string, id = "Test/Model-1"): LanguageModel {
  const { baseURL } = gateway;
  return createOpenAICompatible({ name: "sluice", baseURL, apiKey, includeUsage: true })(id);
}

describe("the ai SDK", { timeout: 20_000 }, () => {
  it("reads an unstreamed answer with its usage and its cost", async () => {
    const { text, finishReason, usage } = await generateText({
      model: modelOf(gateway.key),
      prompt,
      maxRetries: 0,
    });
    assert.equal(text, "Hello world");
    assert.equal(finishReason, "stop");
    assert.deepEqual([usage.inputTokens, usage.outputTokens, usage.totalTokens], [5, 2, 7]);
    assert.equal((usage.raw as RawUsage | undefined)?.usedCUMilli, 7 * tokenMilli);
  });

  it("reads a stream with reasoning and text, and the usage at its end", async () => {
    gateway.worker.script(streamed({ reasoning: ["Hm", "m."] }));
    const result = streamText({ model: modelOf(gateway.key), prompt, maxRetries: 0 });
    let said = "";
    for await (const piece of result.textStream) said += piece;
    assert.equal(said, "Hello world");
    assert.equal(await result.reasoningText, "Hmm.");
    assert.equal(await result.finishReason, "stop");
    const usage = await result.usage;
    assert.deepEqual([usage.inputTokens, usage.outputTokens], [5, 4]);
    assert.equal((usage.raw as RawUsage | undefined)?.usedCUMilli, 9 * tokenMilli);
  });

  it("offers tools, which are ignored", async () => {
    const { text, toolCalls } = await generateText({
      model: modelOf(gateway.key),
      prompt,
      maxRetries: 0,
      tools: { f: tool({ inputSchema: jsonSchema({ type: "object", properties: {} }) }) },
      toolChoice: "auto",
      temperature: 0,
      seed: 1,
    });
    assert.equal(text, "Hello world");
    assert.deepEqual(toolCalls, []);
    const { body } = gateway.worker.received.at(-1) ?? { body: {} };
    assert.deepEqual(Object.keys(body), ["model", "messages", "stream", "chat_template_kwargs"]);
  });
});
