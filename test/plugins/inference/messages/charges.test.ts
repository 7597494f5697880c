/** A message costs the tokens that the worker counts, whole, streamed, cut or abandoned. Workers may lie. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { eventsFor } from "../networks/native-events.ts";
import { raw, usageOf } from "../networks/worker-scripts.ts";
import { tokenMilli } from "../chat/gateway.ts";
import { assertEvents } from "./check-stream.ts";
import { deltas, eventsOf, message, networks, startMessages } from "./gateway.ts";

const inTime = { timeout: 30_000 };
const tool = { name: "edit", input_schema: { type: "object" } };
const call = (text: string, more: object = {}, index = 0): object => ({
  tool_calls: [{ index, ...more, function: { arguments: text, ...more } }],
});
const begin = { id: "call_1", name: "edit" };
const long = { messages: [{ role: "user", content: "x".repeat(100) }] };

for (const [kind, network] of networks) {
  describe(`the charge of a message (${kind})`, inTime, () => testCharges(network));
  describe(`the reservation of a message (${kind})`, inTime, () => testReservations(network));
}

function testCharges(network: string): void {
  for (const stream of [false, true]) {
    it(`is tokens times price (stream: ${stream}): in the usage and in the journal`, async () => {
      await using gateway = await startMessages({ network });
      const usage = { ...usageOf(40, 9), prompt_tokens_details: { cached_tokens: 32 } };
      const content = "Hello";
      gateway.worker.script(
        stream ? deltas([{ content }], "stop", usage) : message({ content }, "stop", usage),
      );
      const { text, json, headers } = await gateway.create({ ...long, stream });
      const shown = stream ? assertEvents(eventsOf(text)).end?.["usage"] : json.usage;
      assert.deepEqual(shown, {
        input_tokens: 8,
        cache_creation_input_tokens: 0,
        cache_read_input_tokens: 32,
        output_tokens: 9,
        usedCUMilli: 49 * tokenMilli,
      });
      if (!stream) assert.equal(headers["x-used-cu-milli"], String(49 * tokenMilli));
      const [row, ...more] = await gateway.charged(1);
      assert.deepEqual(more, []);
      assert.deepEqual(
        [row?.usedMilliCu, row?.inputTokens, row?.outputTokens, row?.surface, row?.outcome],
        [49 * tokenMilli, 40, 9, "messages", "complete"],
      );
    });
  }

  it("of a stream that breaks in a tool call is what was produced", async () => {
    await using gateway = await startMessages({ network });
    const text = "x".repeat(400);
    gateway.worker.script(async (exchange) => {
      const events = eventsFor(exchange);
      exchange.begin();
      await exchange.push(events.delta(call("", begin)));
      await exchange.push(events.delta(call(text)));
      exchange.cut();
    });
    const read = assertEvents(await gateway.events({ tools: [tool], max_tokens: 200 }));
    assert.deepEqual(
      read.blocks.map((block) => block.text),
      [text],
    );
    assert.equal(read.error?.["error"].type, "api_error");
    const [row] = await gateway.charged(1);
    assert.equal(row?.outputTokens, (begin.name.length + text.length) / 4);
    assert.deepEqual([row.estimated, row.outcome], [true, "upstreamFailed"]);
    assert.equal(row.usedMilliCu, (row.inputTokens + row.outputTokens) * tokenMilli);
  });

  it("is an estimate if the report of the worker is impossible", async () => {
    for (const stream of [true, false]) {
      await using gateway = await startMessages({ network });
      const lie = usageOf(1e6, 1e6);
      const content = "12345678";
      gateway.worker.script(
        stream ? deltas([{ content }], "stop", lie) : message({ content }, "stop", lie),
      );
      await gateway.create({ stream, max_tokens: 20 });
      const [row] = await gateway.charged(1);
      assert.deepEqual([row?.inputTokens, row?.outputTokens, row?.estimated], [1, 2, true]);
    }
  });

  it("ends endless arguments of a tool at the limit", async () => {
    await using gateway = await startMessages({ network });
    const endless = [call('{"a":"', begin), ...Array.from({ length: 400 }, () => call("x"))];
    gateway.worker.script(deltas(endless, "tool_calls", usageOf(5, 401)));
    const { end } = assertEvents(await gateway.events({ tools: [tool], max_tokens: 100 }));
    assert.equal(end?.["delta"].stop_reason, "max_tokens");
    const [row] = await gateway.charged(1);
    assert.equal(row?.outputTokens, 100);
  });
}

describe("a hostile worker", inTime, () => {
  it("writes endless calls without a name: they are left out, and the stream ends with an error", async () => {
    await using gateway = await startMessages();
    const endless = Array.from({ length: 400 }, (_, index) =>
      call("{}", { id: `c${index}` }, index),
    );
    gateway.worker.script(deltas(endless, "tool_calls", usageOf(5, 401)));
    const { blocks, error } = assertEvents(
      await gateway.events({ tools: [tool], max_tokens: 100 }),
    );
    assert.deepEqual([blocks, error?.["error"].type], [[], "api_error"]);
    const [row] = await gateway.charged(1);
    assert.equal(row?.outputTokens, 100);
  });

  it("writes more blocks than a model: the stream ends with an error, and its usage is charged", async () => {
    await using gateway = await startMessages();
    const list = Array.from({ length: 600 }, (_, at) =>
      at % 2 === 0 ? { content: "x" } : { reasoning_content: "x" },
    );
    gateway.worker.script(deltas(list, "stop", usageOf(5, 600)));
    const asked = { thinking: { type: "adaptive" }, max_tokens: 1000 };
    const { blocks, error } = assertEvents(await gateway.events(asked));
    assert.equal(blocks.length, 512);
    assert.equal(error?.["error"].type, "api_error");
    const [row] = await gateway.charged(1);
    assert.equal(row?.outputTokens, 600);
  });

  it("repeats a huge id: it is replaced", async () => {
    await using gateway = await startMessages();
    gateway.worker.script(
      deltas([call("{}", { id: "i".repeat(10_000), name: "edit" })], "tool_calls"),
    );
    const { blocks } = assertEvents(await gateway.events({ tools: [tool] }));
    assert.match(blocks[0]?.id ?? "", /^toolu_[0-9a-f-]{36}_0$/);
  });

  it("writes tool calls of a wrong shape: one request fails or the calls are left out, and the next one is fine", async () => {
    await using gateway = await startMessages();
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

  it("writes arguments that are no text: the stream ends with an error, and its usage is charged", async () => {
    await using gateway = await startMessages();
    const function_ = { name: "edit", arguments: { p: 1 } };
    const malformed = [{ tool_calls: [{ index: 0, id: "c", function: function_ }] }];
    gateway.worker.script(deltas(malformed, "tool_calls", usageOf(5, 2)));
    const { error, end } = assertEvents(await gateway.events({ tools: [tool] }));
    assert.deepEqual([error?.["error"].type, end], ["api_error", undefined]);
    const [row] = await gateway.charged(1);
    assert.equal(row?.outputTokens, 2);
  });

  it("repeats the id of a call: the second call gets another", async () => {
    await using gateway = await startMessages();
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
    await using gateway = await startMessages();
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
    for (const [tokens, status] of [
      [4000, 429],
      [5000, 200],
    ] as const) {
      await using gateway = await startMessages({
        network,
        account: { cuLimit24hMilli: tokens * tokenMilli },
      });
      const answer = await gateway.create(members);
      assert.equal(answer.status, status);
      if (status === 429) {
        assert.deepEqual(answer.headers["x-should-retry"], "false");
        assert.match(answer.json.error.message, /^credit|limit/i);
      }
    }
  });
}
