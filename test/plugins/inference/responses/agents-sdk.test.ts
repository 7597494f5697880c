/** Checks the surface with `@openai/agents`: an agent with a tool, streamed and not. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Agent, OpenAIProvider, Runner, tool } from "@openai/agents";
import { OpenAI } from "openai";
import { callDelta, deltas, message, model, startResponses } from "./gateway.ts";

const required: "path"[] = ["path"];
const parameters = {
  type: "object",
  properties: { path: { type: "string" } },
  required,
  additionalProperties: false,
} as const;

for (const stream of [true, false]) {
  test(`an agent runs its tool and answers (stream: ${stream})`, { timeout: 30_000 }, async () => {
    await using gateway = await startResponses();
    const begin = { id: "call_1", name: "read_file" };
    const text = '{"path":"a.txt"}';
    const call = {
      id: begin.id,
      type: "function",
      function: { name: begin.name, arguments: text },
    };
    gateway.worker.script(
      stream
        ? deltas([{ reasoning_content: "hm" }, callDelta(0, text, begin)], "tool_calls")
        : message({ reasoning_content: "hm", content: null, tool_calls: [call] }, "tool_calls"),
    );
    const paths: unknown[] = [];
    const agent = new Agent({
      name: "Reader",
      instructions: "Read files.",
      model,
      tools: [
        tool({
          name: begin.name,
          description: "Reads a file.",
          parameters,
          execute: (input) => {
            paths.push(input);
            return "content of a";
          },
        }),
      ],
    });
    const openAIClient = new OpenAI({
      baseURL: `${gateway.gateway.url}/v1`,
      apiKey: gateway.gateway.key,
      maxRetries: 0,
    });
    const runner = new Runner({
      modelProvider: new OpenAIProvider({ openAIClient, useResponses: true }),
      tracingDisabled: true,
    });
    let output: unknown;
    if (stream) {
      const result = await runner.run(agent, "What is in a.txt?", { stream: true });
      await result.completed;
      output = result.finalOutput;
    } else output = (await runner.run(agent, "What is in a.txt?")).finalOutput;
    assert.equal(output, "Hello world");
    assert.deepEqual(paths, [{ path: "a.txt" }]);
    assert.deepEqual(gateway.worker.received.at(-1)?.body["messages"], [
      { role: "system", content: "Read files." },
      { role: "user", content: "What is in a.txt?" },
      { role: "assistant", content: null, tool_calls: [call], reasoning_content: "hm" },
      { role: "tool", content: "content of a", tool_call_id: "call_1" },
    ]);
  });
}
