/** Calls of tools of any shape, and every stream has one end. See also completions/hostile.slow.test.ts. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { chunkOf, eventOf } from "../networks/chat-events.ts";
import { raw, usageOf } from "../networks/worker-scripts.ts";
import type { Script } from "../networks/scripted-worker.ts";
import { tokenMilli } from "../chat/gateway.ts";
import { assertEvents, assertResponse } from "./check-stream.ts";
import {
  callDelta,
  deltas,
  message,
  networks,
  startResponses,
  type ResponsesGateway,
} from "./gateway.ts";

const inTime = { timeout: 60_000 };
const limit = 1000;
const first = { id: "call_1", name: "f" };
const members = { tools: [{ type: "function", name: "f" }], max_output_tokens: limit };

let gateway: ResponsesGateway;
before(async () => {
  gateway = await startResponses();
});
after(() => gateway[Symbol.asyncDispose]());

async function callsAfter(script: Script): Promise<unknown[]> {
  gateway.worker.script(script);
  const { output, status } = assertEvents(await gateway.events(members));
  assert.equal(status, "completed");
  return output.map((item: Record<string, unknown>) => [
    item["call_id"],
    item["name"],
    item["arguments"],
  ]);
}

describe("calls of tools", inTime, () => {
  it("that all have the same index, no index, or the same id", async () => {
    const named = (index: number | undefined, id: string, name: string, text: string): object => ({
      tool_calls: [{ index, id, type: "function", function: { name, arguments: text } }],
    });
    const whole = (index: number | undefined, id: string, name: string): object =>
      named(index, id, name, "{}");
    assert.deepEqual(await callsAfter(deltas([whole(0, "a", "f"), whole(0, "b", "g")])), [
      ["a", "f", "{}"],
      ["b", "g", "{}"],
    ]);
    const rest = { tool_calls: [{ function: { arguments: "}" } }] };
    assert.deepEqual(await callsAfter(deltas([callDelta(0, "{", first), rest])), [
      ["call_1", "f", "{}"],
    ]);
    const withoutIndex = [whole(undefined, "a", "f"), whole(undefined, "b", "g")];
    assert.deepEqual(await callsAfter(deltas(withoutIndex)), [
      ["a", "f", "{}"],
      ["b", "g", "{}"],
    ]);
    const withoutId = [whole(0, "", "f"), whole(0, "", "g"), whole(0, "", "g")];
    assert.deepEqual(
      (await callsAfter(deltas(withoutId))).map((call) => (call as unknown[]).slice(1)),
      [
        ["f", "{}"],
        ["g", "{}"],
        ["g", "{}"],
      ],
    );
    const pieces = ['{"a":"}{', '\\"', '"}', " "].map((text) => named(0, "", "f", text));
    assert.deepEqual(
      (await callsAfter(deltas(pieces))).map((call) => (call as unknown[]).slice(1)),
      [["f", '{"a":"}{\\""} ']],
    );
    const [one, other] = (await callsAfter(
      deltas([whole(0, "a", "f"), whole(1, "a", "g")]),
    )) as string[][];
    assert.equal(one?.[0], "a");
    assert.match(other?.[0] ?? "", /^call_/);
  });

  it("are not parsed again for each call that waits for their end", async (t) => {
    const open = `{"a":"${"x".repeat(20_000)}`;
    const begun = Array.from({ length: 500 }, (_, at) =>
      callDelta(at + 1, "", { id: `c${at}`, name: "g" }),
    );
    const parse = t.mock.method(JSON, "parse");
    const calls = await callsAfter(deltas([callDelta(0, open, first), ...begun]));
    assert.equal(calls.length, 501);
    const parsed = parse.mock.calls.filter(({ arguments: [text] }) => text === open);
    assert.ok(parsed.length <= 1, `parsed ${parsed.length} times`);
  });

  it("without an id, or with one that is too long, get one", async () => {
    const long = { id: "x".repeat(100_000), name: "f" };
    for (const begin of [{ id: "", name: "f" }, long]) {
      const [call] = (await callsAfter(deltas([callDelta(0, "{}", begin)]))) as string[][];
      assert.match(call?.[0] ?? "", /^call_.{30,60}$/);
      const tool_calls = [
        { id: begin.id, type: "function", function: { name: "f", arguments: "{}" } },
      ];
      gateway.worker.script(message({ content: null, tool_calls }, "tool_calls"));
      const { json } = await gateway.create(members);
      assert.match(json.output[0].call_id, /^call_.{30,60}$/);
    }
  });

  it("that are no JSON arrive as the model wrote them", async () => {
    assert.deepEqual(await callsAfter(deltas([callDelta(0, "not json", first)])), [
      ["call_1", "f", "not json"],
    ]);
  });

  it("without arguments have an empty object, which clients can parse", async () => {
    assert.deepEqual(await callsAfter(deltas([callDelta(0, "", first)])), [["call_1", "f", "{}"]]);
    const tool_calls = [{ id: "call_1", type: "function", function: { name: "f" } }];
    gateway.worker.script(message({ content: null, tool_calls }, "tool_calls"));
    const { json } = await gateway.create(members);
    assert.equal(json.output[0].arguments, "{}");
  });
});

it("endless arguments of a tool end at the limit, as an incomplete call", inTime, async () => {
  const endless = Array.from({ length: 400 }, () => callDelta(0, "x"));
  gateway.worker.script(deltas([callDelta(0, '{"a":"', first), ...endless], "tool_calls"));
  const response = assertEvents(await gateway.events({ ...members, max_output_tokens: 100 }));
  assert.deepEqual(response.incomplete_details, { reason: "max_output_tokens" });
  assert.equal(response.output[0].status, "incomplete");
  assert.equal(response.usage.output_tokens, 100);
});

describe("a response fails, and is charged, after", inTime, () => {
  const broken: readonly (readonly [name: string, deltas: readonly object[]])[] = [
    ["a call without a name", [{ tool_calls: [{ index: 0, function: { arguments: "{}" } }] }]],
    ["a call that is not an object", [{ content: "x", tool_calls: ["edit"] }]],
    [
      "arguments that are no text",
      [{ tool_calls: [{ index: 0, function: { name: "f", arguments: {} } }] }],
    ],
    [
      "arguments after the end of their call",
      [callDelta(0, "{}", first), { content: "x" }, callDelta(0, "{}")],
    ],
    [
      "more calls than a model writes",
      Array.from({ length: 600 }, (_, at) => callDelta(at, "", { id: `c${at}`, name: "f" })),
    ],
    [
      "more items than a model writes",
      Array.from({ length: 600 }, (_, at) =>
        at % 2 === 0 ? { content: "x" } : { reasoning_content: "x" },
      ),
    ],
  ];
  for (const [name, list] of broken) {
    it(name, async () => {
      const earlier = gateway.charges().length;
      gateway.worker.script(deltas(list, "stop", usageOf(5, 2)));
      const response = assertEvents(await gateway.events(members));
      assert.deepEqual([response.status, response.error.code], ["failed", "server_error"]);
      assert.equal(response.usage.usedCUMilli, 7 * tokenMilli);
      assert.equal(gateway.charges().length, earlier + 1);
    });
  }

  it("a call that is no object: those after it are left out, and their texts count", async () => {
    for (const [length, status] of [
      [100, "failed"],
      // More text than the limit of the answer permits.
      [100_000, "incomplete"],
    ] as const) {
      const called = { index: 0, id: "c", function: { name: "f", arguments: "x".repeat(length) } };
      gateway.worker.script(deltas([{ tool_calls: [7, called] }], "stop", usageOf(5, 2)));
      const events = await gateway.events(members);
      assert.equal(assertEvents(events).status, status);
      assert.doesNotMatch(JSON.stringify(events), /xxx/);
    }
  });

  it("more calls in one piece than a model writes", async () => {
    const calls = Array.from({ length: 600 }, (_, at) => {
      return { id: `c${at}`, type: "function", function: { name: "f", arguments: "{}" } };
    });
    gateway.worker.script(message({ content: null, tool_calls: calls }));
    const { json } = await gateway.create(members);
    assertResponse(json);
    assert.equal(json.status, "failed");
  });
});

it("the text with which the model refuses is a part of its own type", inTime, async () => {
  const content = [{ type: "refusal", refusal: "I cannot help." }];
  gateway.worker.script(message({ content: null, refusal: "I cannot help." }));
  const { json } = await gateway.create();
  assertResponse(json);
  gateway.worker.script(deltas([{ refusal: "I cannot" }, { refusal: " help." }]));
  const events = await gateway.events();
  for (const response of [json, assertEvents(events)]) {
    const [{ type, role, content: parts }, ...others] = response.output;
    assert.deepEqual([type, role, parts, others], ["message", "assistant", content, []]);
    assert.equal(response.status, "completed");
  }
  const pieces = events.filter(({ type }) => type === "response.refusal.delta");
  assert.deepEqual(
    pieces.map(({ delta }) => delta),
    ["I cannot", " help."],
  );
});

describe("log probabilities", inTime, () => {
  const content = [{ token: "x", logprob: -1, bytes: [120], top_logprobs: [] }];

  it("come with the deltas of a stream and in an answer in one piece", async () => {
    const choice = {
      index: 0,
      delta: { content: "x" },
      logprobs: { content },
      finish_reason: null,
    };
    const script = raw(200, {}, [
      eventOf({ choices: [choice] }),
      eventOf(chunkOf({}, { finishReason: "stop" })),
      eventOf("[DONE]"),
    ]);
    const asked = { top_logprobs: 1 };
    gateway.worker.script(script);
    const events = await gateway.events(asked);
    assertEvents(events);
    const delta = events.find(({ type }) => type === "response.output_text.delta");
    assert.deepEqual(delta.logprobs, content);
    const whole = {
      index: 0,
      message: { content: "x" },
      logprobs: { content },
      finish_reason: "stop",
    };
    gateway.worker.script(raw(200, {}, [JSON.stringify({ choices: [whole] })]));
    const { json } = await gateway.create(asked);
    assert.deepEqual(json.output[0].content[0].logprobs, content);
  });

  /** More than 65,536 members and elements, as 8,192 tokens have. */
  const long = Array.from({ length: 8_192 }, () => ({ ...content[0], bytes: [1, 2, 3, 4, 5] }));

  it("of a long answer come in one piece", async () => {
    const said = { content: "x".repeat(8_192) };
    const choice = {
      index: 0,
      message: said,
      logprobs: { content: long },
      finish_reason: "stop",
    };
    gateway.worker.script(raw(200, {}, [JSON.stringify({ choices: [choice] })]));
    const { status, json } = await gateway.create({ top_logprobs: 1 });
    assert.equal(status, 200);
    assert.equal(json.output[0].content[0].logprobs.length, 8_192);
  });

  it("may be in the last event of a worker with the same API", async () => {
    await using native = await startResponses({ network: networks[1][1] });
    const text = "x".repeat(8_192);
    const part = { type: "output_text", text, annotations: [], logprobs: long };
    const item = { type: "message", id: "msg_1", role: "assistant", status: "completed" };
    const output = [{ ...item, content: [part] }];
    const usage = { input_tokens: 5, output_tokens: 8_192, total_tokens: 8_197 };
    const response = { id: "resp_1", object: "response", status: "completed", output, usage };
    native.worker.script(raw(200, {}, [eventOf({ type: "response.completed", response })]));
    const last = (await native.events()).at(-1);
    assert.equal(last.type, "response.completed");
    assert.equal(last.response.usage.output_tokens, 8_192);
  });
});
