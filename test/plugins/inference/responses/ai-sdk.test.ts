/** Checks the surface with Vercel's `ai`: `@ai-sdk/openai`, whose default is the Responses API, and `open-responses`. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { createOpenResponses } from "@ai-sdk/open-responses";
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, isStepCount, jsonSchema, streamText, tool, type LanguageModel } from "ai";
import {
  callDelta,
  deltas,
  message,
  model,
  startResponses,
  type ResponsesGateway,
} from "./gateway.ts";

let gateway: ResponsesGateway;
before(async () => {
  gateway = await startResponses();
});
after(() => gateway[Symbol.asyncDispose]());

const prompt = "Hi";

const providers: Readonly<Record<string, (apiKey: string) => LanguageModel>> = {
  "@ai-sdk/openai": (apiKey) =>
    createOpenAI({ baseURL: `${gateway.gateway.url}/v1`, apiKey })(model),
  "@ai-sdk/open-responses": (apiKey) =>
    createOpenResponses({ name: "sluice", url: `${gateway.gateway.url}/v1/responses`, apiKey })(
      model,
    ),
};

it("@ai-sdk/openai without `store: false` gets a message that says what to do", async () => {
  gateway.worker.script(
    message({
      reasoning_content: "hm",
      content: null,
      tool_calls: [{ id: "call_1", type: "function", function: { name: "f", arguments: "{}" } }],
    }),
  );
  const schema = jsonSchema({ type: "object", properties: {} });
  const asking = generateText({
    model: providers["@ai-sdk/openai"]?.(gateway.gateway.key) ?? assert.fail(),
    prompt,
    maxRetries: 0,
    stopWhen: isStepCount(2),
    tools: { f: tool({ inputSchema: schema, execute: () => "done" }) },
  });
  await assert.rejects(asking, /input\[1\]\.type: the gateway stores no items; .*`store: false`/);
});

for (const [name, modelOf] of Object.entries(providers)) {
  describe(name, { timeout: 30_000 }, () => {
    it("reads a stream with reasoning and text", async () => {
      gateway.worker.script(
        deltas([{ reasoning_content: "hm" }, { content: "Hel" }, { content: "lo" }]),
      );
      const result = streamText({ model: modelOf(gateway.gateway.key), prompt, maxRetries: 0 });
      let said = "";
      for await (const piece of result.textStream) said += piece;
      assert.equal(said, "Hello");
      assert.equal(await result.finishReason, "stop");
      assert.deepEqual(
        [(await result.usage).inputTokens, (await result.usage).outputTokens],
        [5, 2],
      );
    });

    it("runs a tool in a loop", async () => {
      gateway.worker.script(
        deltas([
          { reasoning_content: "I need the weather." },
          callDelta(0, '{"place":', { id: "call_1", name: "weather" }),
          callDelta(0, '"here"}'),
        ]),
      );
      const places: unknown[] = [];
      const result = streamText({
        model: modelOf(gateway.gateway.key),
        prompt,
        maxRetries: 0,
        stopWhen: isStepCount(2),
        // Without it, `@ai-sdk/openai` sends only the ids of items that it has received.
        providerOptions: { openai: { store: false } },
        tools: {
          weather: tool({
            inputSchema: jsonSchema({ type: "object", properties: { place: { type: "string" } } }),
            execute: (input) => {
              places.push(input);
              return "sunny";
            },
          }),
        },
      });
      let said = "";
      for await (const piece of result.textStream) said += piece;
      assert.equal(said, "Hello world");
      assert.deepEqual(places, [{ place: "here" }]);
      const sent = gateway.worker.received.at(-1)?.body["messages"];
      assert.ok(Array.isArray(sent));
      assert.deepEqual(sent.at(-1), { role: "tool", content: "sunny", tool_call_id: "call_1" });
      assert.equal(sent.at(-2).tool_calls[0].function.arguments, '{"place":"here"}');
    });
  });
}
