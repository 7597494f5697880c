/** The chat surface in a whole gateway: both shapes of its answer, member by member, and their costs. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { raw, streamed, usageOf, whole } from "../networks/worker-scripts.ts";
import { chunkOf, eventOf } from "../networks/chat-events.ts";
import {
  inRequestedShape,
  chunksOf,
  startChat,
  tokenMilli,
  type Answer,
  type ChatGateway,
} from "./gateway.ts";

const uuid = /^chatcmpl-[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const usage = {
  prompt_tokens: 5,
  completion_tokens: 2,
  total_tokens: 7,
  usedCUMilli: 7 * tokenMilli,
};

let chat: ChatGateway;
before(async () => {
  chat = await startChat();
});
after(() => chat[Symbol.asyncDispose]());

/** Seconds since 1970, taken before and after a request. */
async function timed<T>(work: () => Promise<T>): Promise<[T, (created: number) => void]> {
  const from = Math.floor(Date.now() / 1000);
  const result = await work();
  const to = Math.floor(Date.now() / 1000);
  return [result, (created) => assert.ok(created >= from && created <= to)];
}

describe("an answer in one piece", () => {
  it("has exactly the documented members", async () => {
    const [answer, createdIn] = await timed(() => chat.ask());
    assert.equal(answer.status, 200, answer.text);
    assert.equal(answer.headers["content-type"], "application/json");
    const { id, created, ...rest } = answer.json;
    assert.match(id, uuid);
    createdIn(created);
    assert.deepEqual(rest, {
      object: "chat.completion",
      model: "Test/Model-1",
      choices: [
        {
          index: 0,
          message: { role: "assistant", content: "Hello world" },
          finish_reason: "stop",
        },
      ],
      usage,
    });
    assert.equal(answer.headers["x-used-cu-milli"], String(usage.usedCUMilli));
  });

  it("contains the requested model, and no other member from the worker", async () => {
    const extra = { system_fingerprint: "fp", service_tier: "x", prompt_logprobs: [1] };
    chat.worker.script(whole({ model: "/models/weights.gguf", extra }));
    const { json } = await chat.ask();
    assert.deepEqual(Object.keys(json), ["id", "object", "created", "model", "choices", "usage"]);
    assert.equal(json.model, "Test/Model-1");
  });

  it("has one choice, whatever the worker sends and the client requests", async () => {
    const message = { role: "assistant", content: "first", tool_calls: [], refusal: null };
    const choices = [
      { index: 0, message, logprobs: {}, finish_reason: "length", stop_reason: null },
      { index: 1, message: { role: "assistant", content: "second" }, finish_reason: "stop" },
    ];
    chat.worker.script(whole({ extra: { choices } }));
    const { json } = await chat.ask({ n: 2 });
    assert.deepEqual(json.choices, [
      { index: 0, message: { role: "assistant", content: "first" }, finish_reason: "length" },
    ]);
  });

  it("contains reasoning as reasoning_content under either name that workers use", async () => {
    chat.worker.script(whole({ reasoning: ["Hm", "m."] }));
    const thinking = { chat_template_kwargs: { enable_thinking: true } };
    const message = { role: "assistant", content: "Hello world", reasoning_content: "Hmm." };
    assert.deepEqual((await chat.ask(thinking)).json.choices[0].message, message);
    const choices = [{ message: { role: "assistant", content: "Hello world", reasoning: "Hmm." } }];
    chat.worker.script(whole({ extra: { choices } }));
    assert.deepEqual((await chat.ask(thinking)).json.choices[0].message, message);
  });

  it("contains the text with which the model refuses, and its bytes count", async () => {
    const refusal = "I cannot help.";
    const choices = [{ message: { role: "assistant", content: null, refusal } }];
    chat.worker.script(whole({ usage: "none", extra: { choices } }));
    const { json } = await chat.ask();
    assert.deepEqual(json.choices[0].message, { role: "assistant", content: null, refusal });
    assert.equal(json.usage.completion_tokens, Math.ceil(refusal.length / 4));
  });

  it("may be empty", async () => {
    chat.worker.script(whole({ tokens: [] }));
    const { json } = await chat.ask();
    assert.equal(json.choices[0].message.content, "");
    assert.deepEqual(json.usage, {
      ...usage,
      completion_tokens: 0,
      total_tokens: 5,
      usedCUMilli: 15,
    });
  });
});

describe("a streamed answer", () => {
  it("consists of chunks with exactly the documented members, then [DONE]", async () => {
    const [events, createdIn] = await timed(() => chat.stream());
    const chunks = chunksOf(events);
    const [{ id, created }] = chunks;
    assert.match(id, uuid);
    createdIn(created);
    const chunk = (delta: object, finishReason: string | null = null) => ({
      id,
      object: "chat.completion.chunk",
      created,
      model: "Test/Model-1",
      choices: [{ index: 0, delta, finish_reason: finishReason }],
    });
    assert.deepEqual(chunks, [
      chunk({ role: "assistant", content: "" }),
      chunk({ content: "Hello" }),
      chunk({ content: " world" }),
      chunk({}, "stop"),
    ]);
  });

  it("is an event stream that proxies must not cache or buffer", async () => {
    const answer = await chat.ask({ stream: true });
    assert.equal(answer.headers["content-type"], "text/event-stream; charset=utf-8");
    assert.equal(answer.headers["cache-control"], "no-cache");
    assert.equal(answer.headers["x-accel-buffering"], "no");
    assert.equal(answer.headers["x-used-cu-milli"], undefined);
    assert.ok(answer.text.endsWith("\n\ndata: [DONE]\n\n"));
  });

  it("ends with usage before [DONE] only if the client asked for it", async () => {
    const asked = chunksOf(await chat.stream({ stream_options: { include_usage: true } }));
    const { id, created } = asked[0];
    assert.deepEqual(asked.at(-1), {
      id,
      object: "chat.completion.chunk",
      created,
      model: "Test/Model-1",
      choices: [],
      usage,
    });
    assert.equal(asked.filter((chunk) => "usage" in chunk).length, 1);
    for (const options of [undefined, null, {}, { include_usage: false }]) {
      const chunks = chunksOf(await chat.stream({ stream_options: options }));
      assert.equal(chunks.filter((one) => "usage" in one || one.choices.length === 0).length, 0);
    }
  });

  it("takes only the choice from a chunk of the worker, not id or model", async () => {
    chat.worker.script(
      streamed({ model: "/weights", extra: { system_fingerprint: "fp", usage: null } }),
    );
    for (const chunk of chunksOf(await chat.stream())) {
      const members = ["id", "object", "created", "model", "choices"];
      assert.deepEqual(Object.keys(chunk), members);
      assert.equal(chunk.model, "Test/Model-1");
      assert.equal(chunk.choices.length, 1);
    }
  });

  it("contains `reasoning_content` if a worker sends `reasoning`", async () => {
    const script = [
      chunkOf({ role: "assistant", content: "", reasoning: "Hm" }),
      chunkOf({ reasoning: 'm "\\"' }),
      chunkOf({ reasoning_content: "!" }),
      chunkOf({ content: "reasoning" }, { finishReason: "stop" }),
      "[DONE]",
    ].map((document) => eventOf(document));
    chat.worker.script(raw(200, { "content-type": "text/event-stream" }, script));
    const kwargs = { enable_thinking: true };
    const chunks = chunksOf(await chat.stream({ chat_template_kwargs: kwargs }));
    assert.deepEqual(
      chunks.map(({ choices }) => choices[0].delta),
      [
        { role: "assistant", content: "", reasoning_content: "Hm" },
        { reasoning_content: 'm "\\"' },
        { reasoning_content: "!" },
        { content: "reasoning" },
      ],
    );
  });

  const forms: readonly [string, Parameters<typeof streamed>[0]][] = [
    ["byte by byte", { pieces: "byte" }],
    ["in one piece", { pieces: "whole" }],
    ["with CRLF", { newline: "\r\n" }],
    ["with comments between events", { pings: true }],
    ["with each document on several lines", { multiline: true }],
    ["coded with gzip", { gzip: true }],
    ["without [DONE]", { done: false }],
    ["with a usage report in every chunk", { extra: { usage: usageOf(5, 2) } }],
  ];
  for (const [how, form] of forms) {
    it(`is the same if the worker sends it ${how}`, async () => {
      const tokens = ["Zwölf ", "🙂", 'a "b"', "\n\n", "data: x"];
      chat.worker.script(streamed({ usage: usageOf(5, 2), ...form, tokens }));
      const chunks = chunksOf(await chat.stream({ stream_options: { include_usage: true } }));
      const said = chunks.map(({ choices }) => choices[0]?.delta.content ?? "").join("");
      assert.equal(said, tokens.join(""));
      assert.deepEqual(chunks.at(-1).usage, usage);
      assert.equal(chunks.at(-2).choices[0].finish_reason, "stop");
    });
  }

  it("has no line ends from the white space of the worker", async () => {
    const long = "a text that is longer than what is read byte by byte";
    const event = `data: {"choices":[{"delta":\r{"content":"${long}"},\r\t"finish_reason":"stop"}]}\n\n`;
    chat.worker.script(raw(200, {}, [event]));
    assert.equal(chunksOf(await chat.stream())[0].choices[0].delta.content, long);
  });

  it("forwards each token before the worker sends the next", async () => {
    const held = chat.worker.hold();
    const answer = chat.open();
    const worker = await held;
    worker.begin();
    await worker.push(eventOf(chunkOf({ role: "assistant", content: "" })));
    const reading = (await answer)[Symbol.asyncIterator]();
    let seen = "";
    for (const token of ["one", "two", "three"]) {
      await worker.push(eventOf(chunkOf({ content: token })));
      while (!seen.includes(token)) seen += String((await reading.next()).value);
    }
    await worker.push(eventOf(chunkOf({}, { finishReason: "stop" })) + eventOf("[DONE]"));
    worker.end();
    while (!seen.endsWith("data: [DONE]\n\n")) seen += String((await reading.next()).value);
  });
});

describe("the cost of an answer", () => {
  /** Returns the last charge, which must be on disk when the answer has arrived. */
  const lastCharge = () => chat.charges().at(-1);
  const shapes: readonly [
    string,
    (members: object) => Promise<{ usage: { usedCUMilli: number } }>,
  ][] = [
    ["in one piece", async (members) => (await chat.ask(members)).json],
    [
      "streamed",
      async (members) =>
        chunksOf(await chat.stream({ stream_options: { include_usage: true }, ...members })).at(-1),
    ],
  ];
  const script = (said: Parameters<typeof whole>[0]) => chat.worker.script(inRequestedShape(said));

  for (const [shape, ask] of shapes) {
    it(`${shape}: is the same in the answer and in the journal, which also contains the values it was computed from`, async () => {
      script({ usage: usageOf(1234, 567) });
      const { usage: reported } = await ask({});
      assert.equal(reported.usedCUMilli, (1234 + 567) * tokenMilli);
      const charge = lastCharge();
      assert.equal(charge?.usedMilliCu, reported.usedCUMilli);
      assert.equal(charge.inputTokens, 1234);
      assert.equal(charge.outputTokens, 567);
      assert.equal(charge.estimated, false);
      assert.equal(charge.surface, "chat");
      assert.equal(charge.method, "chat.completions");
      assert.equal(charge.model, "Test/Model-1");
      const { asOf, ...pricing } = charge.pricing ?? { asOf: "" };
      assert.deepEqual(pricing, {
        network: "classic",
        coefficient: 1000,
        pricePerTokenNano: "12",
        tokenUsdRate: "0.25",
      });
      assert.ok(Date.parse(asOf) <= Date.now());
    });

    it(`${shape}: is estimated and marked as such without the worker's usage`, async () => {
      script({ usage: "none", tokens: ["one", "two", "thre"] });
      const answer = await ask({ messages: [{ role: "user", content: "12345" }] });
      // 5 characters make 2 tokens; 10 characters, or 3 chunks, make 3.
      assert.deepEqual(answer.usage, {
        prompt_tokens: 2,
        completion_tokens: 3,
        total_tokens: 5,
        usedCUMilli: 5 * tokenMilli,
      });
      assert.equal(lastCharge()?.estimated, true);
      assert.equal(lastCharge()?.usedMilliCu, 5 * tokenMilli);
    });
  }

  it("is on disk when [DONE] of a stream arrives, also if the client did not ask for usage", async () => {
    const earlier = chat.charges().length;
    await chat.stream();
    assert.equal(chat.charges().length, earlier + 1);
    assert.equal(lastCharge()?.usedMilliCu, 7 * tokenMilli);
    assert.equal(lastCharge()?.outcome, "complete");
  });
});

describe("unusual prices", () => {
  const priced = async (price: string, rate: string): Promise<Answer> => {
    await using other = await startChat({ price, rate });
    return await other.ask();
  };

  it("are computed from exact decimals and rounded half up once", async () => {
    // 7 × 0.5 × 0.142857142857 = 0.4999999999995, which would be a whole milli-CU only from 0.5 on.
    const below = await priced("0.5", '"0.142857142857"');
    assert.equal(below.json.usage.usedCUMilli, 0);
    const half = await priced("0.5", '"0.142857142858"');
    assert.equal(half.json.usage.usedCUMilli, 1);
  });

  for (const [missing, options] of [
    ["rate", { rate: "" }],
    ["rate", { rate: '"0"' }],
    ["price", { price: "0" }],
  ] as const) {
    it(`charge 0 with ${JSON.stringify(options)}, which is counted`, async () => {
      await using other = await startChat(options);
      const answer = await other.ask();
      assert.equal(answer.json.usage.usedCUMilli, 0);
      assert.equal(answer.headers["x-used-cu-milli"], "0");
      const [charge] = other.charges();
      assert.deepEqual([charge?.usedMilliCu, charge?.inputTokens], [0, 5]);
      for (const name of ["rate", "price"]) {
        const metric = `sluice_inference_unpriced_total{network="classic",missing="${name}"}`;
        assert.equal(await other.metric(metric), name === missing ? 1 : 0);
      }
    });
  }
});

describe("the log", () => {
  it("contains neither prompts nor answers", async () => {
    await using other = await startChat();
    const secret = "wombat-in-the-prompt";
    const content = [{ type: "text", text: secret }];
    await other.ask({ messages: [{ role: "user", content }] });
    await other.ask({ messages: [{ role: secret, content }], user: secret, stream: true });
    await other.send(`{"model":"${secret}`);
    // A text without spaces could be the name of a model, which operators want to see.
    await other.ask({ model: `Repeat ${secret}` });
    const { text } = await other.ask({ messages: [{ role: "user", content }], stream: secret });
    assert.ok(!text.includes(secret));
    const lines = await other.logged();
    assert.equal(lines.match(/chat\/completions/g)?.length, 10);
    assert.ok(!lines.includes(secret));
    assert.ok(!lines.includes("Hello"));
  });
});
