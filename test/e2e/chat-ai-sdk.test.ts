/** Checks the chat surface with Vercel's `ai` and `@ai-sdk/openai-compatible`. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { APICallError, generateText, jsonSchema, streamText, tool, type LanguageModel } from "ai";
import { failing, streamed } from "../plugins/inference/networks/worker-scripts.ts";
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

  it("stops a stream: the request to the worker ends, and the part that arrived is charged", async () => {
    const earlier = gateway.charges().length;
    const held = gateway.worker.hold();
    const leaving = new AbortController();
    const result = streamText({
      model: modelOf(gateway.key),
      prompt,
      maxRetries: 0,
      abortSignal: leaving.signal,
    });
    const reading = (async () => {
      for await (const piece of result.textStream) if (piece === "Hello") leaving.abort();
    })();
    const worker = await held;
    await streamed({ stop: { after: 2, how: "silence" } })(worker);
    await worker.left;
    await reading.catch(() => {});
    const charge = (await gateway.charged(earlier + 1)).at(-1);
    assert.equal(charge?.outcome, "clientLeft");
    // decisions.md section 3: the larger of one chunk and 5 bytes / 4, rounded up.
    assert.equal(charge.outputTokens, 2);
  });

  const failed = async (model: LanguageModel): Promise<APICallError> => {
    try {
      await generateText({ model, prompt, maxRetries: 0 });
    } catch (error) {
      assert.ok(APICallError.isInstance(error), String(error));
      return error;
    }
    return assert.fail("it was answered");
  };

  it("recognises each refusal by its status, and retries only those that can succeed", async () => {
    const refusals: unknown[] = [];
    for (const model of [
      modelOf(gateway.unknownKey),
      modelOf(gateway.forbiddenKey),
      modelOf(gateway.poorKey),
      modelOf(gateway.key, "No/Model-1"),
    ]) {
      const { statusCode, isRetryable } = await failed(model);
      refusals.push([statusCode, isRetryable]);
    }
    assert.deepEqual(refusals, [
      [401, false],
      [403, false],
      [429, true],
      [404, false],
    ]);
    gateway.worker.script(failing(400));
    const wrong = await failed(modelOf(gateway.key));
    assert.deepEqual([wrong.statusCode, wrong.isRetryable], [400, false]);
    gateway.worker.script(failing(500));
    const { statusCode, isRetryable, message } = await failed(modelOf(gateway.key));
    assert.deepEqual([statusCode, isRetryable], [503, true]);
    assert.equal(message, "the model could not answer because of a server error");
  });

  it("reports a stream that breaks off", async () => {
    gateway.worker.script(streamed({ stop: { after: 2, how: "cut" } }));
    const errors: unknown[] = [];
    const result = streamText({
      model: modelOf(gateway.key),
      prompt,
      maxRetries: 0,
      onError: ({ error }) => void errors.push(error),
    });
    let said = "";
    for await (const part of result.fullStream) if (part.type === "text-delta") said += part.text;
    assert.equal(said, "Hello");
    assert.equal(errors.length, 1);
  });
});
