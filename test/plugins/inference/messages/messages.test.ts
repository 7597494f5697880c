/**
 * The Messages API: whole and streamed answers, their blocks, usage, charge and reservation, and workers that write
 * anything. See also completions/hostile.slow.test.ts.
 */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { raw, streamed, usageOf } from "../networks/worker-scripts.ts";
import { tokenMilli } from "../chat/gateway.ts";
import {
  eventsOf,
  message,
  networks,
  startMessages,
  type MessagesGateway,
  deltas,
} from "./gateway.ts";
import { assertEvents } from "./check-stream.ts";

const inTime = { timeout: 60_000 };
const callOf = (id: string, name: string, text: string): object => ({
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
        callOf("call_1", "edit", '{"path":"a"}'),
        callOf("", "list", ""),
        callOf("c", "bad", "[1"),
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
        translated: { choices: [{ message: { tool_calls: [callOf("c", "edit", digits)] } }] },
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

  it("has the text with which the model refuses, and the stop reason refusal", async () => {
    const content = [{ type: "text", text: "I cannot help." }];
    gateway.worker.script(message({ content: null, refusal: "I cannot help." }));
    const { json } = await gateway.create();
    assert.deepEqual([json.stop_reason, json.content], ["refusal", content]);
    gateway.worker.script(deltas([{ refusal: "I cannot" }, { refusal: " help." }]));
    const { blocks, end } = assertEvents(await gateway.events());
    assert.equal(end?.["delta"].stop_reason, "refusal");
    assert.deepEqual(
      blocks.map(({ type, text }) => ({ type, text })),
      content,
    );
  });

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

const tool = { name: "edit", input_schema: { type: "object" } };
const call = (text: string, more: object = {}, index = 0): object => ({
  tool_calls: [{ index, ...more, function: { arguments: text, ...more } }],
});
const begin = { id: "call_1", name: "edit" };

for (const [kind, network] of networks) {
  describe(`the reservation of a message (${kind})`, inTime, () => testReservations(network));
}

describe("a hostile worker", inTime, () => {
  const lastCharge = () => gateway.charges().at(-1);

  const endless = Array.from({ length: 400 }, (_, at) => at);
  const many = [...endless, ...endless].slice(0, 600);
  for (const [what, list, ended, tokens] of [
    [
      "endless arguments: they end at the limit",
      [call('{"a":"', begin), ...endless.map(() => call("x"))],
      "max_tokens",
      100,
    ],
    [
      "endless calls without a name: they are left out, and the stream ends with an error",
      endless.map((at) => call("{}", { id: `c${at}` }, at)),
      "api_error",
      100,
    ],
    [
      "more blocks than a model: the stream ends with an error, and its usage is charged",
      many.map((_, at) => (at % 2 === 0 ? { content: "x" } : { reasoning_content: "x" })),
      "api_error",
      600,
    ],
    [
      "arguments that are no text: the stream ends with an error, and its usage is charged",
      [{ tool_calls: [{ index: 0, id: "c", function: { name: "edit", arguments: { p: 1 } } }] }],
      "api_error",
      2,
    ],
  ] as const) {
    it(`writes ${what}`, async () => {
      gateway.worker.script(deltas(list, "tool_calls", usageOf(5, tokens === 100 ? 401 : tokens)));
      const limit = { max_tokens: tokens === 600 ? 1000 : 100 };
      const asked = { tools: [tool], thinking: { type: "adaptive" }, ...limit };
      const { blocks, end, error } = assertEvents(await gateway.events(asked));
      assert.equal(end?.["delta"].stop_reason ?? error?.["error"].type, ended);
      assert.ok(blocks.length <= 512);
      assert.equal(lastCharge()?.outputTokens, tokens);
    });
  }

  it("writes tool calls of a wrong shape: one request fails or the calls are left out, and the next one is fine", async () => {
    const empty = [7, null, "x", [{}], [{ function: 7 }]];
    const malformed = [[7], [{ id: 7, function: { name: [], arguments: {} } }]];
    for (const tool_calls of [...empty, ...malformed]) {
      gateway.worker.script(deltas([{ tool_calls }, { content: "x" }], "tool_calls"));
      const { blocks, end, error } = assertEvents(await gateway.events({ tools: [tool] }));
      assert.deepEqual(
        blocks.map(({ text }) => text),
        ["x"],
        JSON.stringify(tool_calls),
      );
      const isMalformed = malformed.some((one) => one === tool_calls);
      const ending = end?.["delta"].stop_reason ?? error?.["error"].type;
      assert.equal(ending, isMalformed ? "api_error" : "end_turn");
      gateway.worker.script(message({ tool_calls }));
      const { status } = await gateway.create({ tools: [tool] });
      assert.ok([200, 503].includes(status), `${status}`);
    }
    assert.equal((await gateway.create()).status, 200);
  });

  it("repeats the id of a call, or writes a huge one: it is replaced", async () => {
    gateway.worker.script(deltas([call("{}", { id: "i".repeat(10_000), name: "edit" })]));
    const huge = assertEvents(await gateway.events({ tools: [tool] }));
    assert.match(huge.blocks[0]?.id ?? "", /^toolu_[0-9a-f-]{36}_0$/);
    const given = { id: "c", name: "edit" };
    gateway.worker.script(deltas([call("{}", given, 0), call("{}", given, 1)], "tool_calls"));
    const { blocks } = assertEvents(await gateway.events({ tools: [tool] }));
    const whole = { id: "c", type: "function", function: { name: "edit", arguments: "{}" } };
    gateway.worker.script(message({ tool_calls: [whole, whole] }, "tool_calls"));
    const { json } = await gateway.create({ tools: [tool] });
    for (const [one, other] of [blocks, json.content]) {
      assert.equal(one.id, "c");
      assert.match(other.id, /^toolu_[0-9a-f-]{36}_1$/);
    }
  });

  it("says something in its error: the client does not see it", async () => {
    const reply = (error: object, status = 400) =>
      raw(status, { "content-type": "application/json" }, [JSON.stringify({ error })]);
    gateway.worker.script(reply({ message: "secret-of-the-worker", type: "x" }));
    const refused = await gateway.create();
    assert.deepEqual([refused.status, refused.json.error.type], [400, "invalid_request_error"]);
    assert.doesNotMatch(refused.text, /secret/);
    const words =
      "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens (4900 in the messages, 100 in the completion).";
    gateway.worker.script(reply({ message: words, type: "BadRequestError", code: 400 }));
    const tooLong = await gateway.create();
    assert.equal(tooLong.json.error.message, "prompt is too long: 5000 tokens > 4096 maximum");
    assert.equal(tooLong.status, 400);
    const inputs =
      "'max_tokens' is too large: 100. This model's maximum context length is 4096 tokens and your request has 4000 input tokens (100 > 4096 - 4000).";
    gateway.worker.script(reply({ message: inputs, type: "BadRequestError", code: 400 }));
    const answerTooLong = await gateway.create();
    assert.equal(answerTooLong.status, 400);
    assert.equal(
      answerTooLong.json.error.message,
      "input length and `max_tokens` exceed context limit: 4000 + 100 > 4096, decrease input length or `max_tokens` and try again",
    );
  });
});

function testReservations(network: string): void {
  it("covers system, tools, calls and schemas", async () => {
    const members = {
      system: "x".repeat(1000),
      tools: [{ ...tool, description: "y".repeat(1000) }],
      output_config: { format: { type: "json_schema", schema: { title: "z".repeat(1000) } } },
      messages: [
        { role: "user", content: "Hi" },
        {
          role: "assistant",
          content: [{ type: "tool_use", id: "c", name: "edit", input: { w: "w".repeat(1000) } }],
        },
        { role: "user", content: [{ type: "tool_result", tool_use_id: "c", content: "done" }] },
      ],
      max_tokens: 10,
    };
    await using limited = await startMessages({ network });
    for (const [tokens, status] of [
      [4000, 429],
      [5000, 200],
    ] as const) {
      const { key } = await limited.gateway.issue({ cuLimit24hMilli: tokens * tokenMilli });
      const answer = await limited.create(members, { key });
      assert.equal(answer.status, status);
      if (status === 429) {
        assert.deepEqual(answer.headers["x-should-retry"], "false");
        assert.match(answer.json.error.message, /^credit|limit/i);
      }
    }
  });
}
