/** Checks the surface with OpenAI's own client. See also test/clients. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { OpenAI } from "openai";
import type { ResponseInputItem } from "openai/resources/responses/responses";
import {
  callDelta,
  deltas,
  model,
  networks,
  startResponses,
  type ResponsesGateway,
} from "./gateway.ts";

let gateway: ResponsesGateway;
let client: OpenAI;

const edit = {
  type: "function",
  name: "edit",
  description: "Edits a file.",
  parameters: { type: "object", properties: { path: { type: "string" } } },
  strict: null,
} as const;

for (const [kind, network] of networks) {
  describe(`the openai client (${kind})`, { timeout: 60_000 }, () => {
    before(async () => {
      gateway = await startResponses({ network });
      const { url, key } = gateway.gateway;
      client = new OpenAI({ baseURL: `${url}/v1`, apiKey: key, maxRetries: 0 });
    });
    after(() => gateway[Symbol.asyncDispose]());
    testClient(kind === "native");
  });
}

function testClient(isNative: boolean): void {
  it("reads a stream with reasoning, text and calls, and its own snapshot agrees with the end", async () => {
    const begin = { id: "call_1", name: "edit" };
    gateway.worker.script(
      deltas([
        { reasoning_content: "hm" },
        { content: "I " },
        { content: "edit." },
        callDelta(0, '{"path":', begin),
        callDelta(0, '"a"}'),
      ]),
    );
    const stream = client.responses.stream({ model, input: "Hi", tools: [edit] });
    const types: string[] = [];
    let text = "";
    stream.on("event", ({ type }) => types.push(type));
    stream.on("response.output_text.delta", ({ delta }) => (text += delta));
    const final = await stream.finalResponse();
    assert.equal(text, "I edit.");
    assert.deepEqual(
      final.output.map(({ type }) => type),
      ["reasoning", "message", "function_call"],
    );
    assert.equal(types.at(-1), "response.completed");
    assert.equal(final.usage?.output_tokens, 2);
  });

  it("runs a tool and sends its whole conversation back", async () => {
    gateway.worker.script(
      deltas([
        { reasoning_content: "I need the file." },
        callDelta(0, '{"path":"a"}', { id: "call_1", name: "edit" }),
      ]),
    );
    const input: ResponseInputItem[] = [{ role: "user", content: "Edit a." }];
    const first = await client.responses
      .stream({ model, input, tools: [edit], include: ["reasoning.encrypted_content"] })
      .finalResponse();
    for (const item of first.output) {
      if (item.type === "function_call") {
        assert.deepEqual(JSON.parse(item.arguments), { path: "a" });
        input.push(item);
        input.push({ type: "function_call_output", call_id: item.call_id, output: "done" });
      } else if (item.type === "reasoning") {
        // Some clients keep the sealed text only. A worker with this API decides for itself whether it seals it.
        const { content: _, ...sealed } = item;
        assert.ok(!JSON.stringify(sealed).includes("file"));
        input.push(isNative ? item : sealed);
      }
    }
    const last = await client.responses.create({ model, input, tools: [edit] });
    assert.equal(last.output_text, "Hello world");
    const { body } = gateway.worker.received.at(-1) ?? assert.fail();
    if (isNative) return assert.deepEqual(body["input"], input);
    const call = {
      id: "call_1",
      type: "function",
      function: { name: "edit", arguments: '{"path":"a"}' },
    };
    assert.deepEqual(body["messages"], [
      { role: "user", content: "Edit a." },
      {
        role: "assistant",
        content: null,
        tool_calls: [call],
        reasoning_content: "I need the file.",
      },
      { role: "tool", content: "done", tool_call_id: "call_1" },
    ]);
  });
}
