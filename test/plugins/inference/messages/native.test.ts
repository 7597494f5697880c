/** Workers that have the Messages API themselves: what they get, and what clients get of their answers. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { createRandom } from "../../../../bench/soak/random.ts";
import { manualClock } from "../../../../src/testing/clock.ts";
import { randomJunk } from "../completions/random-choices.ts";
import { eventOf } from "../networks/chat-events.ts";
import { failing, raw, usageOf, workerSecret } from "../networks/worker-scripts.ts";
import type { Script } from "../networks/scripted-worker.ts";
import { model, tokenMilli } from "../chat/gateway.ts";
import { assertEvents } from "./check-stream.ts";
import {
  deltas,
  messagesBody,
  networks,
  startMessages,
  type MessagesEvent,
  type MessagesGateway,
} from "./gateway.ts";

const inTime = { timeout: 60_000 };
const [, [, native]] = networks;
const edit = { name: "edit", input_schema: { type: "object" } };
const start = {
  type: "message_start",
  message: { id: "msg_of_the_worker", usage: { input_tokens: 5, output_tokens: 1 } },
};
const open = (index: number, type = "text"): object => ({
  type: "content_block_start",
  index,
  content_block: { type, text: "" },
});
const text = (index: number, said = "12345678"): object => ({
  type: "content_block_delta",
  index,
  delta: { type: "text_delta", text: said },
});
const stop = (index: number): object => ({ type: "content_block_stop", index });
const ended = (more: object = {}): object => ({
  type: "message_delta",
  delta: { stop_reason: "end_turn", stop_sequence: null },
  usage: { output_tokens: 2 },
  ...more,
});
const last = { type: "message_stop" };

function sending(...events: readonly object[]): Script {
  return raw(
    200,
    {},
    events.map((one) => eventOf(one)),
  );
}

let gateway: MessagesGateway;
before(async () => {
  gateway = await startMessages({ network: native });
});
after(() => gateway[Symbol.asyncDispose]());

describe("a worker with the Messages API gets", inTime, () => {
  it("the body of the client, without what is named as ignored", async () => {
    const cached = { type: "text", text: "Be brief.", cache_control: { type: "ephemeral" } };
    const known = {
      model,
      max_tokens: 100,
      messages: [
        { role: "user", content: [{ ...cached, text: "Hi", x: 1 }] },
        { role: "system", content: "Now." },
      ],
      tools: [{ ...edit, eager_input_streaming: true }],
      thinking: { type: "enabled", budget_tokens: 50 },
      output_config: { effort: "high" },
      temperature: 0.5,
    };
    const billing = { type: "text", text: "x-anthropic-billing-header: abc" };
    const { headers } = await gateway.create({
      ...known,
      system: [billing, cached],
      metadata: { user_id: "u" },
      chat_template: "x",
    });
    assert.equal(gateway.worker.received.at(-1)?.path, "/v1/messages");
    assert.deepEqual(gateway.lastBody(), { ...known, system: [cached], stream: false });
    const ignored = headers["x-sluice-ignored"];
    assert.equal(ignored, "system.billing_header, metadata, chat_template");
    await gateway.create({ system: billing.text });
    assert.deepEqual(gateway.lastBody(), { ...messagesBody(), stream: false });
    await gateway.create({ system: "Be brief." });
    assert.equal(gateway.lastBody().system, "Be brief.");
  });

  it("no parameters that the network does not pass, and nothing that is refused", async () => {
    await using own = await startMessages({ network: "speaks: [messages]" });
    const members = {
      temperature: 0.5,
      top_k: 2,
      stop_sequences: ["x"],
      output_config: { effort: "low" },
    };
    const { headers } = await own.create(members);
    assert.deepEqual(own.lastBody(), { ...messagesBody(), output_config: {}, stream: false });
    assert.match(
      String(headers["x-sluice-ignored"]),
      /^temperature, stop_sequences, output_config.effort, top_k$/,
    );
    const strict = { "anthropic-version": "2026-10-21" };
    assert.equal((await own.create({ temperature: 1 }, { headers: strict })).status, 400);
    assert.equal((await own.create({ tools: [edit] })).status, 400);
    assert.equal((await own.create({ mcp_servers: [{ url: "x" }] })).status, 400);
    assert.equal(own.worker.received.length, 1);
    const thought = { type: "thinking", thinking: "", signature: "of the worker" };
    const said = { type: "text", text: "Hello" };
    const user = { role: "user", content: "Hi" };
    const assistant = (...content: readonly object[]): object => ({ role: "assistant", content });
    const messages = [user, assistant(thought, said), user, assistant(thought), user];
    const answer = await own.create({ messages });
    assert.equal(answer.headers["x-sluice-ignored"], "messages.content.thinking");
    assert.deepEqual(own.lastBody().messages, [user, assistant(said), user, user]);
    await gateway.create({ messages });
    assert.deepEqual(gateway.lastBody().messages, messages);
  });
});

describe("the client gets", inTime, () => {
  const content = [
    { type: "text", text: "Hi", citations: [{ type: "char_location" }] },
    { type: "new_block", data: 1 },
  ];

  it("the blocks of an answer in one piece as the worker wrote them, in a message of the gateway", async () => {
    const usage = {
      input_tokens: 5,
      cache_read_input_tokens: 20,
      cache_creation_input_tokens: 10,
      output_tokens: 2,
    };
    const reply = {
      id: "of_the_worker",
      model: "of_the_worker",
      type: "message",
      role: "assistant",
    };
    const end = { stop_reason: "stop_sequence", stop_sequence: "x" };
    gateway.worker.script(raw(200, {}, [JSON.stringify({ ...reply, content, ...end, usage })]));
    const { json, text: sent } = await gateway.create({ system: "x".repeat(100) });
    assert.deepEqual(json.content, content);
    assert.deepEqual(
      [json.model, json.stop_reason, json.stop_sequence],
      [model, "stop_sequence", "x"],
    );
    assert.match(json.id, /^msg_[0-9a-f-]{36}$/);
    assert.doesNotMatch(sent, /of_the_worker/);
    assert.deepEqual(json.usage, {
      input_tokens: 15,
      cache_creation_input_tokens: 0,
      cache_read_input_tokens: 20,
      output_tokens: 2,
      usedCUMilli: 37 * tokenMilli,
    });
  });

  it("blocks and deltas that chat completions do not have", async () => {
    const delta = { type: "citations_delta", citation: { type: "char_location" } };
    const events = [
      start,
      open(0, "new_block"),
      { type: "content_block_delta", index: 0, delta },
      stop(0),
      { type: "new_event" },
      ended({ delta: { stop_reason: "stop_sequence", stop_sequence: "x" } }),
      last,
    ];
    gateway.worker.script(sending(...events));
    const received = await gateway.events();
    assert.deepEqual(received.slice(2, 5), [
      open(0, "new_block"),
      { type: "content_block_delta", index: 0, delta },
      stop(0),
    ]);
    assert.deepEqual(received[5]?.["delta"], { stop_reason: "stop_sequence", stop_sequence: "x" });
    assert.equal(received[5]?.["usage"].usedCUMilli, 7 * tokenMilli);
    assert.deepEqual(received.slice(6), [last]);
    assert.doesNotMatch(JSON.stringify(received), /of_the_worker/);
  });

  it("the pings of the worker, and nothing else in them", async () => {
    const ping = { type: "ping" };
    gateway.worker.script(
      sending(start, open(0), { ...ping, x: "of_the_worker" }, text(0), stop(0), ended(), last),
    );
    assert.deepEqual((await gateway.events()).slice(2, 5), [open(0), ping, text(0)]);
  });

  it("a complete answer if the worker omits the last event, or ends all blocks together", async () => {
    gateway.worker.script(sending(start, open(0), text(0), stop(0), ended()));
    assert.equal(assertEvents(await gateway.events()).end?.["usage"].output_tokens, 2);
    gateway.worker.script(
      sending(start, open(0), text(0), open(1), text(1), stop(0), stop(1), ended(), last),
    );
    assert.deepEqual((await gateway.events()).at(-1), last);
    gateway.worker.script(sending(start, open(0), text(0), ended(), last));
    assert.equal(assertEvents(await gateway.events()).blocks.length, 1);
  });

  it("a closed block if the worker writes more than was requested", async () => {
    const endless = Array.from({ length: 400 }, () => ({ content: "x" }));
    for (const reasoning of [[], [{ reasoning_content: "hm" }]]) {
      gateway.worker.script(deltas([...reasoning, ...endless], "stop", usageOf(5, 400)));
      const { blocks, end } = assertEvents(await gateway.events());
      assert.equal(blocks.length, reasoning.length + 1);
      assert.deepEqual(end?.["delta"], { stop_reason: "max_tokens", stop_sequence: null });
      assert.equal(end?.["usage"].output_tokens, 100);
    }
  });
});

describe("a hostile worker with the Messages API", inTime, () => {
  const begun = [start, open(0), text(0)];
  const error = { type: "error", error: { type: "x", message: workerSecret } };
  const failures: readonly (readonly [name: string, script: Script, written?: number])[] = [
    ["an error", sending(...begun, error)],
    ["garbage", raw(200, {}, [...begun.map((one) => eventOf(one)), "data: {]\n\n"])],
    ["an event without a type", sending(...begun, { delta: {} })],
    ["no end", sending(...begun)],
    ["an end without a reason", sending(...begun, last)],
    [
      "a reason of another shape",
      sending(...begun, ended({ usage: {}, delta: { stop_reason: 7 } }), last),
    ],
    [
      "negative counts",
      sending(
        { ...start, message: { usage: { input_tokens: -5 } } },
        ...begun.slice(1),
        ended(),
        error,
      ),
    ],
    [
      "a report before an error",
      sending(...begun, ended({ usage: { output_tokens: 1 } }), error),
      1,
    ],
  ];
  for (const [name, script, written = 2] of failures) {
    it(`sends ${name}: the stream ends with an error, and what was written is charged`, async () => {
      const earlier = gateway.charges().length;
      gateway.worker.script(script);
      const { text: sent } = await gateway.create({ stream: true });
      assert.match(sent, /event: error\ndata: [^\n]*the model could not answer[^\n]*\n\n$/);
      assert.ok(!sent.includes(workerSecret));
      const [row, ...more] = (await gateway.charged(earlier + 1)).slice(earlier);
      assert.deepEqual([row?.outputTokens, row?.outcome, more], [written, "upstreamFailed", []]);
      assert.equal((await gateway.create()).status, 200);
    });
  }

  const disorders: readonly (readonly [name: string, events: readonly object[]])[] = [
    ["a delta without a block", [start, text(0)]],
    ["a delta after the end of its block", [...begun, stop(0), text(0)]],
    ["a block twice", [...begun, open(0)]],
    ["a gap between blocks", [...begun, stop(0), open(2)]],
    ["a delta that is not an object", [...begun, { ...text(0), delta: "x" }]],
    ["a block that is not an object", [start, { ...open(0), content_block: "x" }]],
    [
      "more blocks than a model writes",
      [start, ...Array.from({ length: 600 }, (_, at) => open(at))],
    ],
  ];
  for (const [name, events] of disorders) {
    it(`sends ${name}: the stream ends with an error, and its usage is charged`, async () => {
      const earlier = gateway.charges().length;
      gateway.worker.script(sending(...events, ended(), last));
      const received = await gateway.events({ max_tokens: 1000 });
      assert.equal(received.at(-1)?.["type"], "error");
      const row = (await gateway.charged(earlier + 1)).at(-1);
      assert.equal(row?.usedMilliCu, 7 * tokenMilli);
    });
  }

  it("sends an invalid answer in one piece: the client gets 503, and nothing is charged", async () => {
    const content = [{ type: "text", text: "x" }];
    const wrong = [
      {},
      [],
      error,
      { content },
      { content: "x", stop_reason: "end_turn" },
      { content: ["x"], stop_reason: "end_turn" },
    ];
    for (const document of wrong) {
      const earlier = gateway.charges().length;
      gateway.worker.script(raw(200, {}, [JSON.stringify(document)]));
      const { status, text: sent } = await gateway.create();
      assert.deepEqual([status, sent.includes(workerSecret)], [503, false]);
      // The next answer keeps the worker available, and is charged.
      assert.equal((await gateway.create()).status, 200);
      assert.equal(gateway.charges().length, earlier + 1);
    }
  });

  it("sends events of any shape: the stream has one end, and the next request is served", async () => {
    const seed = Date.now() | 0;
    const random = createRandom(seed);
    const types = [
      "message_start",
      "content_block_start",
      "content_block_delta",
      "content_block_stop",
      "message_delta",
    ];
    for (let count = 0; count < 100; count++) {
      const events = Array.from({ length: random.int(8) }, () => {
        const junk = randomJunk(random);
        const isObject = typeof junk === "object" && junk !== null;
        return {
          delta: junk,
          ...(isObject && junk),
          type: random.pick(types),
          index: random.int(2),
        };
      });
      gateway.worker.script(sending(start, ...events, ended(), last));
      const received: MessagesEvent[] = await gateway.events();
      const ends = received.filter(({ type }) => type === "message_stop" || type === "error");
      assert.equal(ends.length, 1, `seed ${seed}: ${JSON.stringify(received)}`);
    }
    assert.equal((await gateway.create()).status, 200);
  });
});

describe("count_tokens at a worker", inTime, () => {
  const path = "/v1/messages/count_tokens";
  const network = "passes: [tools], speaks: [count_tokens]";
  const counted = (document: unknown): Script => raw(200, {}, [JSON.stringify(document)]);

  it("returns the count of the worker, and is free", async () => {
    await using own = await startMessages({ network });
    own.worker.script(counted({ input_tokens: 77 }));
    const billing = "x-anthropic-billing-header: abc";
    const asked = { tools: [edit], system: [{ type: "text", text: billing }] };
    const { status, json, headers } = await own.create(asked, { path });
    assert.deepEqual([status, json], [200, { input_tokens: 77 }]);
    assert.equal(headers["x-sluice-estimate"], undefined);
    assert.ok(headers["request-id"]);
    assert.equal(own.worker.received.at(-1)?.path, path);
    const { max_tokens: _, ...body } = messagesBody({ tools: [edit] }) as MessagesEvent;
    assert.deepEqual(own.lastBody(), body);
    assert.deepEqual(own.charges(), []);
    assert.equal(await own.metric("gen_ai_client_token_usage_count"), 0);
    // Messages themselves are translated.
    assert.equal((await own.create()).status, 200);
    assert.equal(own.worker.received.at(-1)?.path, "/v1/chat/completions");
  });

  it("is an estimate if the worker fails, lies or says nothing, and the worker stays available", async () => {
    await using own = await startMessages({ network });
    const wrong = [{}, [], "x", { input_tokens: -1 }, { input_tokens: "7" }, { input_tokens: 1e8 }];
    const scripts = [failing(500), failing(400), failing(404), ...wrong.map(counted)];
    for (const script of scripts) {
      own.worker.script(script);
      const { status, json, headers } = await own.create({}, { path });
      assert.deepEqual([status, json], [200, { input_tokens: 9 }]);
      assert.equal(headers["x-sluice-estimate"], "input_tokens");
    }
    assert.equal((await own.create()).status, 200);
    assert.equal(own.charges().length, 1);
  });

  it("is an estimate if the worker is silent for three seconds", async () => {
    const clock = manualClock();
    await using own = await startMessages({ network, clock });
    const held = own.worker.hold();
    const asked = own.create({}, { path });
    const worker = await held;
    clock.advance(3_000);
    const { status, json } = await asked;
    assert.deepEqual([status, json], [200, { input_tokens: 9 }]);
    await worker.left;
  });

  it("ends the request of a client that leaves", async () => {
    await using own = await startMessages({ network });
    const held = own.worker.hold();
    const controller = new AbortController();
    const { url, key } = own.gateway;
    const asked = fetch(url + path, {
      method: "POST",
      signal: controller.signal,
      headers: { "x-api-key": key, "content-type": "application/json" },
      body: JSON.stringify(messagesBody()),
    });
    const worker = await held;
    controller.abort();
    await assert.rejects(asked);
    await worker.left;
    assert.equal((await own.create()).status, 200);
  });
});
