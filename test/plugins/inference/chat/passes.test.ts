/** `passes` of a network: what its workers get in addition to texts, how it is measured, and what is named as ignored. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { chunkOf, eventOf, usageChunkOf } from "../networks/chat-events.ts";
import { raw, usageOf } from "../networks/worker-scripts.ts";
import { assertChatError, chunksOf, startChat, tokenMilli, type ChatGateway } from "./gateway.ts";

const inTime = { timeout: 60_000 };
const everything = "passes: [tools, sampling, format, logprobs, images, reasoning]";

const tool = {
  type: "function",
  function: { name: "edit", parameters: { type: "object", properties: { path: {} } } },
};
const call = { id: "call_1", type: "function", function: { name: "edit", arguments: '{"path":' } };
const history = [
  { role: "user", content: "Edit a.txt" },
  { role: "assistant", content: null, tool_calls: [call], reasoning_content: "hm" },
  { role: "tool", tool_call_id: "call_1", content: "done" },
];
const picture = { type: "image_url", image_url: { url: "data:image/png;base64,AAAA" } };
const question = { type: "text", text: "What is this?" };
const fields = {
  temperature: 0.2,
  stop: ["END"],
  tools: [tool],
  tool_choice: "auto",
  response_format: { type: "json_object" },
  logprobs: true,
  reasoning_effort: "low",
};

describe("a network that passes everything", inTime, () => {
  let chat: ChatGateway;
  before(async () => {
    chat = await startChat({ network: everything });
  });
  after(() => chat[Symbol.asyncDispose]());

  it("forwards fields, calls of tools with their results, and images, and names nothing", async () => {
    const messages = [...history, { role: "user", content: [picture] }];
    const { status, headers } = await chat.ask({ messages, ...fields });
    assert.equal(status, 200);
    assert.equal(headers["x-sluice-ignored"], undefined);
    const { body } = chat.worker.received.at(-1) ?? {};
    assert.deepEqual(body?.["messages"], messages);
    for (const [name, value] of Object.entries(fields)) assert.deepEqual(body?.[name], value, name);
  });

  it("returns the tool calls and the log probabilities of an answer in one piece", async () => {
    const logprobs = { content: [{ token: "x", logprob: -1 }] };
    const choice = {
      index: 0,
      message: { role: "assistant", content: null, tool_calls: [call] },
      logprobs,
      finish_reason: "tool_calls",
    };
    chat.worker.script(wholeOf({ choices: [choice], usage: usageOf(5, 2) }));
    const { json, headers } = await chat.ask(fields);
    assert.deepEqual(json.choices, [choice]);
    assert.equal(headers["x-used-cu-milli"], String(7 * tokenMilli));
  });

  it("gives the calls of an answer in one piece ids if the worker gives them none", async () => {
    const calls = [{ ...call, id: undefined }, { ...call, id: null }, call];
    const message = { role: "assistant", content: null, tool_calls: calls };
    chat.worker.script(wholeOf({ choices: [{ index: 0, message, finish_reason: "tool_calls" }] }));
    const { json } = await chat.ask(fields);
    const ids = json.choices[0].message.tool_calls.map(({ id }: { id: unknown }) => id);
    assert.deepEqual(ids, [`${json.id}_0`, `${json.id}_1`, call.id]);
  });

  it("streams the chunks of tool calls unchanged", async () => {
    const deltas = [
      { role: "assistant", tool_calls: [{ index: 0, ...call }] },
      { tool_calls: [{ index: 0, function: { arguments: '"a.txt"}' } }] },
    ];
    chat.worker.script(streamOf(deltas, "tool_calls"));
    const chunks = chunksOf(await chat.stream({ ...fields }));
    assert.deepEqual(
      chunks.slice(0, 2).map(({ choices }) => choices[0].delta),
      deltas,
    );
    assert.equal(chunks[2].choices[0].finish_reason, "tool_calls");
  });

  it("estimates a stream that breaks by its names and arguments, and the prompt by its tools", async () => {
    const text = "x".repeat(400);
    const events = [
      chunkOf({ tool_calls: [{ index: 0, id: "1", function: { name: "edit", arguments: "" } }] }),
      chunkOf({ tool_calls: [{ index: 0, function: { arguments: text } }] }),
    ].map((chunk) => eventOf(chunk));
    chat.worker.script(async (exchange) => {
      exchange.begin();
      await exchange.push(events.join(""));
      exchange.cut();
    });
    const earlier = chat.charges().length;
    await chat.ask({ stream: true, tools: [tool] });
    const row = (await chat.charged(earlier + 1)).at(-1);
    const promptBytes = "Hi".length + JSON.stringify({ tools: [tool] }).length;
    assert.deepEqual(
      [row?.estimated, row?.outputTokens, row?.inputTokens],
      [true, (text.length + "edit".length) / 4, Math.ceil(promptBytes / 4)],
    );
  });

  it("estimates a stream by every text that the client gets, in whatever form", async () => {
    const text = "x".repeat(400);
    const earlier = chat.charges().length;
    const written = { function: { arguments: text } };
    for (const delta of [
      { tool_calls: [7, written] },
      { tool_calls: [text] },
      { tool_calls: [[], { custom: { input: text } }] },
      { function_call: { arguments: text } },
      { content: [{ text }] },
      { refusal: text },
    ]) {
      chat.worker.script(async (exchange) => {
        exchange.begin();
        await exchange.push(eventOf(chunkOf(delta)));
        exchange.cut();
      });
      await chat.ask({ stream: true });
    }
    const rows = (await chat.charged(earlier + 6)).slice(earlier);
    for (const row of rows) assert.deepEqual([row.estimated, row.outputTokens], [true, 100]);
  });

  it("ends endless arguments of a tool at max_tokens", async () => {
    const delta = { tool_calls: [{ index: 0, function: { arguments: "x" } }] };
    const endless = Array.from({ length: 400 }, () => delta);
    chat.worker.script(streamOf(endless, "tool_calls"));
    const chunks = chunksOf(await chat.stream({ tools: [tool], max_tokens: 100 }));
    assert.equal(chunks.at(-1).choices[0].finish_reason, "length");
    assert.equal(chat.charges().at(-1)?.outputTokens, 100);
  });

  it("reserves credit for tools and images, up to contextTokens", async () => {
    const statusWith = async (cuLimit24hMilli: number, network: string): Promise<number> => {
      await using own = await startChat({
        network: `${everything}, ${network}`,
        account: { cuLimit24hMilli },
      });
      const messages = [{ role: "user", content: [picture, picture] }];
      return (await own.ask({ messages, tools: [tool], max_tokens: 10 })).status;
    };
    const images = 2_000 + JSON.stringify({ tools: [tool] }).length + 10;
    assert.equal(await statusWith(images * tokenMilli, "imageTokens: 1000"), 429);
    assert.equal(await statusWith((images + 100) * tokenMilli, "imageTokens: 1000"), 200);
    const capped = 60 * tokenMilli;
    assert.equal(await statusWith(capped, "imageTokens: 1000, contextTokens: 50"), 200);
    assert.equal(await statusWith(capped - 1, "imageTokens: 1000, contextTokens: 50"), 429);
  });

  const wrong: readonly (readonly [string, object, RegExp])[] = [
    ["more than one completion", { n: 2 }, /^n: expected 1/],
    ["tools that are not a list", { tools: {} }, /^tools: expected a list/],
    ["a tool without a name", { tools: [tool, { type: "function" }] }, /^tools\[1\]: expected/],
    [
      "a call without arguments",
      { messages: [{ role: "assistant", tool_calls: [{ id: "1", function: { name: "f" } }] }] },
      /^messages\[0\]\.tool_calls\[0\]\.function\.arguments: expected a string/,
    ],
    [
      "a result whose call has no text as its id",
      { messages: [{ role: "tool", tool_call_id: 1, content: "" }] },
      /^messages\[0\]\.tool_call_id: expected a string/,
    ],
  ];
  for (const [title, members, message] of wrong) {
    it(`refuses ${title}`, async () => {
      const earlier = chat.worker.received.length;
      const answer = await chat.ask(members);
      assertChatError(answer, 400, "INVALID_REQUEST");
      assert.match(answer.json.error.message, message);
      assert.equal(chat.worker.received.length, earlier);
    });
  }

  it("fails one exchange if the tool calls of a worker are malformed", async () => {
    const message = { role: "assistant", content: "x", tool_calls: [{ function: 5 }] };
    chat.worker.script(wholeOf({ choices: [{ index: 0, message, finish_reason: "stop" }] }));
    assertChatError(await chat.ask(fields), 503, "UPSTREAM_ERROR");
    assert.equal((await chat.ask(fields)).status, 200);
  });
});

describe("a network that passes nothing", inTime, () => {
  let chat: ChatGateway;
  before(async () => {
    chat = await startChat();
  });
  after(() => chat[Symbol.asyncDispose]());

  it("gets texts only, and the answer names everything that was dropped", async () => {
    const messages = [
      ...history,
      { role: "user", content: [picture, { type: "sound" }, question] },
    ];
    const { status, headers } = await chat.ask({ messages, ...fields });
    assert.equal(status, 200);
    assert.equal(
      headers["x-sluice-ignored"],
      [
        "temperature, stop, tools, tool_choice, response_format, logprobs, reasoning_effort",
        "messages.tool_calls, messages.reasoning_content, messages.tool_call_id",
        "messages.content.image_url, messages.content.sound",
      ].join(", "),
    );
    assert.deepEqual(chat.worker.received[0]?.body["messages"], [
      { role: "user", content: "Edit a.txt" },
      { role: "assistant", content: null },
      { role: "tool", content: "done" },
      { role: "user", content: [question] },
    ]);
    assert.equal(
      await chat.metric('sluice_chat_ignored_fields_total{field="messages.tool_calls"}'),
      1,
    );
  });

  it("names every member that does not reach it, in a header of a bounded size", async () => {
    const named = async (members: object): Promise<unknown> =>
      (await chat.ask(members)).headers["x-sluice-ignored"];
    const said = { role: "user", content: [{ ...question, cache_control: {} }], weight: 1 };
    assert.equal(
      await named({
        verbosity: "low",
        service_tier: "flex",
        store: true,
        metadata: {},
        web_search_options: {},
        newest: 1,
        extra_body: { nested: 1 },
        stream_options: { include_obfuscation: false },
        chat_template_kwargs: { chat_template: "x", own: 1 },
        messages: [said],
      }),
      [
        "stream_options.include_obfuscation, chat_template_kwargs.chat_template",
        "metadata, service_tier, store, verbosity, web_search_options, nested, newest",
        "messages.content.cache_control, messages.weight",
      ].join(", "),
    );
    assert.equal(await named({ "a: b\r\nset-cookie": 1, ["x".repeat(41)]: 1, é: 1 }), "other");
    const many = Object.fromEntries(Array.from({ length: 1_000 }, (_, n) => [`m${n}`, n]));
    assert.equal(String(await named({ ...many, tools: [tool] })).split(", ").length, 17);
    assert.equal(await named({ seed: null, tools: undefined, prompt_cache_key: "s" }), undefined);
  });

  it("does not return tool calls that its worker makes nevertheless", async () => {
    const message = { role: "assistant", content: "x", tool_calls: [call] };
    chat.worker.script(wholeOf({ choices: [{ index: 0, message, finish_reason: "stop" }] }));
    const { json } = await chat.ask();
    assert.deepEqual(json.choices[0].message, { role: "assistant", content: "x" });
  });
});

function wholeOf(document: object): ReturnType<typeof raw> {
  return raw(200, { "content-type": "application/json" }, [JSON.stringify(document)]);
}

function streamOf(deltas: readonly object[], finishReason: string): ReturnType<typeof raw> {
  const documents = [
    ...deltas.map((delta) => chunkOf(delta)),
    chunkOf({}, { finishReason }),
    usageChunkOf(usageOf(5, 3)),
    "[DONE]",
  ];
  const events = documents.map((document) => eventOf(document));
  return raw(200, { "content-type": "text/event-stream" }, events);
}
