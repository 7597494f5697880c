/** The Messages API: whole and streamed answers, their blocks, usage and charge. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { raw, streamed } from "../networks/worker-scripts.ts";
import { tokenMilli } from "../chat/gateway.ts";
import { eventsOf, message, networks, startMessages, type MessagesGateway } from "./gateway.ts";

const inTime = { timeout: 60_000 };
const call = (id: string, name: string, text: string): object => ({
  id,
  type: "function",
  function: { name, arguments: text },
});

let gateway: MessagesGateway;
before(async () => {
  gateway = await startMessages();
});
after(() => gateway[Symbol.asyncDispose]());

describe("a message in one piece", inTime, () => {
  it("has the text, the usage and the charge of the answer", async () => {
    const { status, headers, json } = await gateway.create();
    assert.equal(status, 200);
    const { id, ...rest } = json;
    assert.match(id, /^msg_[0-9a-f-]{36}$/);
    assert.deepEqual(rest, {
      type: "message",
      role: "assistant",
      model: "Test/Model-1",
      content: [{ type: "text", text: "Hello world" }],
      stop_reason: "end_turn",
      stop_sequence: null,
      usage: {
        input_tokens: 5,
        cache_creation_input_tokens: 0,
        cache_read_input_tokens: 0,
        output_tokens: 2,
        usedCUMilli: 7 * tokenMilli,
      },
    });
    assert.equal(headers["x-used-cu-milli"], String(7 * tokenMilli));
    assert.equal(headers["request-id"], headers["x-request-id"]);
    assert.equal(headers["x-sluice-ignored"], undefined);
    const row = gateway.charges().at(-1);
    assert.equal(row?.method, "messages");
  });

  it("has thinking, text and calls of tools in this order, and cached tokens beside the others", async () => {
    const usage = {
      prompt_tokens: 9,
      completion_tokens: 4,
      prompt_tokens_details: { cached_tokens: 6 },
    };
    const given = {
      content: "Look",
      reasoning_content: "Hm",
      tool_calls: [
        call("call_1", "edit", '{"path":"a"}'),
        call("", "list", ""),
        call("c", "bad", "[1"),
      ],
    };
    gateway.worker.script(message(given, "tool_calls", usage));
    const { json } = await gateway.create({ thinking: { type: "adaptive" } });
    assert.equal(json.stop_reason, "tool_use");
    assert.deepEqual(json.content, [
      { type: "thinking", thinking: "Hm", signature: "shown" },
      { type: "text", text: "Look" },
      { type: "tool_use", id: "call_1", name: "edit", input: { path: "a" } },
      { type: "tool_use", id: json.content[3].id, name: "list", input: {} },
      { type: "tool_use", id: "c", name: "bad", input: { malformed_arguments: "[1" } },
    ]);
    assert.match(json.content[3].id, /^toolu_/);
    assert.equal(json.usage.input_tokens, 3);
    assert.equal(json.usage.cache_read_input_tokens, 6);
    assert.equal(json.usage.usedCUMilli, 13 * tokenMilli);
  });

  for (const [kind, network] of networks) {
    it(`keeps the digits of numbers in the input of a tool (${kind})`, async () => {
      await using own = await startMessages({ network });
      const digits = '{"id":12345678901234567890,"x":1.0}';
      const worker = {
        translated: { choices: [{ message: { tool_calls: [call("c", "edit", digits)] } }] },
        native: {
          content: [{ type: "tool_use", id: "c", name: "edit", input: "DIGITS" }],
          stop_reason: "tool_use",
          usage: { input_tokens: 5, output_tokens: 2 },
        },
      }[kind];
      const body = JSON.stringify(worker).replace('"DIGITS"', digits);
      own.worker.script(raw(200, { "content-type": "application/json" }, [body]));
      const { status, text, json } = await own.create();
      assert.equal(status, 200, text);
      assert.equal(json.content.length, 1);
      assert.ok(text.includes(`"input":${digits}`), text);
    });
  }

  it("stops with end_turn for an unknown finish reason", async () => {
    gateway.worker.script(message({ content: "x" }, "something"));
    assert.equal((await gateway.create()).json.stop_reason, "end_turn");
  });
});

describe("a streamed message", inTime, () => {
  it("has the events of one text, and the charge at its end", async () => {
    const events = await gateway.events();
    const [start, ...rest] = events;
    assert.match(start?.["message"].id, /^msg_/);
    assert.deepEqual(start?.["message"].content, []);
    const usage = { cache_creation_input_tokens: 0, cache_read_input_tokens: 0 };
    assert.deepEqual(start?.["message"].usage, { input_tokens: 0, output_tokens: 0 });
    const delta = (text: string): object => ({
      type: "content_block_delta",
      index: 0,
      delta: { type: "text_delta", text },
    });
    assert.deepEqual(rest, [
      { type: "ping" },
      { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
      delta("Hello"),
      delta(" world"),
      { type: "content_block_stop", index: 0 },
      {
        type: "message_delta",
        delta: { stop_reason: "end_turn", stop_sequence: null },
        usage: { ...usage, input_tokens: 5, output_tokens: 2, usedCUMilli: 7 * tokenMilli },
      },
      { type: "message_stop" },
    ]);
  });

  it("ends with an error event and without message_stop if the worker breaks off", async () => {
    gateway.worker.script(streamed({ stop: { after: 2, how: "cut" } }));
    const { text, headers } = await gateway.create({ stream: true });
    const last = eventsOf(text).at(-1);
    assert.deepEqual(last, {
      type: "error",
      error: { type: "api_error", message: "the model could not answer because of a server error" },
      request_id: headers["request-id"],
    });
    assert.doesNotMatch(text, /message_stop|DONE/);
    const row = gateway.charges().at(-1);
    assert.equal(row?.outcome, "upstreamFailed");
    // 2 bytes of the prompt and 5 of the answer, estimated: one token, and two.
    assert.equal(row?.usedMilliCu, 3 * tokenMilli);
  });
});
