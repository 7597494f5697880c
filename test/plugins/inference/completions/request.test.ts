/** Tests of the parser of chat requests, which also writes the worker's request: every row of gateway.md's table. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Ajv2020 } from "ajv/dist/2020.js";
import * as fc from "fast-check";
import { requestSchema } from "../../../../plugins/inference/chat/operation.ts";
import {
  readChatRequest as readNormalized,
  withoutExtraBody,
  type CompletionRequest,
  unpooledBytes,
} from "../../../../plugins/inference/completions/request.ts";
import { InvalidRequest } from "../../../../plugins/inference/completions/check.ts";
import { isObject } from "../../../../src/base/is-object.ts";
import { chatBody } from "../chat/gateway.ts";

type Reading =
  | { readonly ok: true; readonly request: CompletionRequest }
  | { readonly ok: false; readonly message: string };

function readChatRequest(value: unknown): Reading {
  const body = withoutExtraBody(value);
  if (!isObject(body)) return { ok: false, message: "the body must be a JSON object" };
  try {
    return { ok: true, request: readNormalized(body).request };
  } catch (error) {
    assert.ok(error instanceof InvalidRequest, String(error));
    return { ok: false, message: error.message };
  }
}

function read(members: object = {}): CompletionRequest {
  const reading = readChatRequest(chatBody(members));
  assert.ok(reading.ok, reading.ok ? "" : reading.message);
  return reading.request;
}

function sent(members: object = {}): Record<string, unknown> {
  return JSON.parse(read(members).body.toString()) as Record<string, unknown>;
}

function refused(value: unknown): string {
  const reading = readChatRequest(value);
  assert.ok(!reading.ok, JSON.stringify(value));
  return reading.message;
}

const noThinking = { enable_thinking: false };

describe("the request to a worker contains", () => {
  it("model, messages, enable_thinking: false, and nothing that the client did not send", () => {
    assert.deepEqual(sent(), {
      model: "Test/Model-1",
      messages: [{ role: "user", content: "Hi" }],
      stream: false,
      chat_template_kwargs: noThinking,
    });
  });

  it("include_usage for every stream", () => {
    for (const options of [
      undefined,
      null,
      {},
      { include_usage: false },
      { include_usage: null },
    ]) {
      const members = { stream: true, stream_options: options };
      assert.equal(sent(members)["stream"], true);
      assert.deepEqual(sent(members)["stream_options"], { include_usage: true });
      assert.equal(read(members).includeUsage, false);
    }
    assert.equal(
      read({ stream: true, stream_options: { include_usage: true } }).includeUsage,
      true,
    );
    assert.equal(sent({ stream_options: { include_usage: true } })["stream_options"], undefined);
  });

  it("max_tokens, also if the client calls it max_completion_tokens", () => {
    assert.equal(sent({ max_tokens: 7 })["max_tokens"], 7);
    assert.equal(sent({ max_completion_tokens: 8 })["max_tokens"], 8);
    assert.equal(sent({ max_tokens: 7, max_completion_tokens: 8 })["max_tokens"], 7);
    assert.equal(sent({ max_tokens: null, max_completion_tokens: 8 })["max_tokens"], 8);
    assert.equal(sent({ max_completion_tokens: 8 })["max_completion_tokens"], undefined);
    assert.equal("max_tokens" in sent({ max_tokens: null }), false);
  });

  it("no ignored and no unknown fields", () => {
    const ignored = {
      temperature: 0.5,
      top_p: 1,
      n: 3,
      stop: ["x"],
      presence_penalty: 1,
      frequency_penalty: 1,
      seed: 1,
      user: "u",
      tools: [{ type: "function", function: { name: "f" } }],
      tool_choice: "auto",
      response_format: { type: "json_object" },
      logprobs: true,
      logit_bias: { 1: 2 },
      top_logprobs: 2,
      store: true,
      metadata: {},
      anything: { at: ["all"] },
    };
    assert.deepEqual(sent(ignored), sent());
    assert.deepEqual(read(ignored).ignored.toSorted(), Object.keys(ignored).toSorted());
    assert.deepEqual(read({ extra_body: { tools: [] }, seed: null }).ignored, ["tools"]);
    for (const [name] of Object.entries(ignored)) {
      for (const value of [null, "?", -1, [], {}])
        assert.deepEqual(sent({ [name]: value }), sent());
    }
  });

  it("chat_template_kwargs unchanged, with thinking off unless the client enables it", () => {
    const kwargs = (value: unknown): unknown =>
      sent({ chat_template_kwargs: value })["chat_template_kwargs"];
    assert.deepEqual(kwargs(undefined), noThinking);
    assert.deepEqual(kwargs(null), noThinking);
    assert.deepEqual(kwargs({}), noThinking);
    assert.deepEqual(kwargs({ enable_thinking: true }), { enable_thinking: true });
    assert.deepEqual(kwargs({ enable_thinking: null }), { enable_thinking: null });
    assert.deepEqual(kwargs({ documents: [{ a: 1 }] }), { ...noThinking, documents: [{ a: 1 }] });
  });

  it("no member of chat_template_kwargs that would change how the prompt is built", () => {
    const building = {
      chat_template: "{% for i in range(10000000) %}x{% endfor %}",
      tokenize: false,
      add_generation_prompt: false,
      continue_final_message: true,
      return_dict: true,
    };
    const kwargs = { ...building, enable_thinking: true, documents: [] };
    for (const members of [
      { chat_template_kwargs: kwargs },
      { extra_body: { chat_template_kwargs: kwargs } },
    ]) {
      assert.deepEqual(sent(members)["chat_template_kwargs"], {
        enable_thinking: true,
        documents: [],
      });
    }
  });

  it("the members of extra_body, which members of the body override", () => {
    const kwargs = { enable_thinking: true };
    assert.deepEqual(sent({ extra_body: { chat_template_kwargs: kwargs } }), {
      ...sent(),
      chat_template_kwargs: kwargs,
    });
    assert.equal(sent({ extra_body: { max_tokens: 5 } })["max_tokens"], 5);
    assert.equal(sent({ max_tokens: 6, extra_body: { max_tokens: 5 } })["max_tokens"], 6);
    assert.equal(sent({ extra_body: { model: "Other/Model-2" } })["model"], "Test/Model-1");
    assert.equal(read({ extra_body: { stream: true } }).stream, true);
    assert.deepEqual(sent({ extra_body: { extra_body: { max_tokens: 5 }, seed: 1 } }), sent());
    assert.deepEqual(sent({ extra_body: null }), sent());
    const { model: _, ...noModel } = chatBody() as { model: string };
    const reading = readChatRequest({ ...noModel, extra_body: { model: "From/Extra-1" } });
    assert.ok(reading.ok && reading.request.model === "From/Extra-1");
  });

  it("messages with role, content and name, and only the parts of type text", () => {
    const messages = [
      { role: "system", content: "Be brief.", name: "s", cache_control: {} },
      {
        role: "user",
        content: [
          { type: "text", text: "What is ", cache_control: {} },
          { type: "image_url", image_url: { url: "https://example.org/a.png" } },
          { type: "text", text: "this?" },
        ],
      },
      { role: "assistant", content: null, tool_calls: [{ id: "1" }] },
      { role: "assistant", refusal: "no" },
      { role: "tool", content: "", tool_call_id: "1", name: null },
    ];
    assert.deepEqual(sent({ messages })["messages"], [
      { role: "system", content: "Be brief.", name: "s" },
      {
        role: "user",
        content: [
          { type: "text", text: "What is " },
          { type: "text", text: "this?" },
        ],
      },
      { role: "assistant", content: null },
      { role: "assistant", content: null },
      { role: "tool", content: "" },
    ]);
    assert.deepEqual(read({ messages }).ignored, [
      "messages.cache_control",
      "messages.content.cache_control",
      "messages.content.image_url",
      "messages.tool_calls",
      "messages.refusal",
      "messages.tool_call_id",
    ]);
  });

  it("no message whose parts have no text, because the client would pay for an empty one", () => {
    for (const type of ["image_url", "input_audio", "made_up"]) {
      const messages = [{ role: "user", content: [{ type }] }];
      const wanted =
        "messages[0].content: expected a text, because only text is forwarded to the model";
      assert.equal(refused(chatBody({ messages })), wanted);
    }
    const content = [{ type: "made_up" }, { type: "text", text: "Hi" }];
    const { ignored } = read({ messages: [{ role: "user", content }] });
    assert.deepEqual(ignored, ["messages.content.made_up"]);
  });

  it("text of every kind, unchanged", () => {
    const content = 'quote " backslash \\ newline \n null \u0000 é 漢 🙂 \u2028 </script>';
    assert.deepEqual(sent({ messages: [{ role: "user", content }] })["messages"], [
      { role: "user", content },
    ]);
  });
});

describe("bytes that are kept during an answer", () => {
  it("are not a slice of the shared buffer pool", () => {
    const { body } = read();
    assert.equal(body.buffer.byteLength, body.length);
    const bytes = unpooledBytes("data: ü€😀");
    assert.equal(bytes.toString(), "data: ü€😀");
    assert.equal(bytes.buffer.byteLength, bytes.length);
  });
});

describe("a request is refused with a reason for", () => {
  const limits = ["5", 0, -1, 1.5, 1e9, true, {}, []];
  const usages = ["true", 1, {}, []].map((value) => ({ include_usage: value }));
  const wrong: readonly [name: string, values: readonly unknown[], reason: string][] = [
    ["model", [undefined, null, "", 1, {}, ["a"]], "model: "],
    ["messages", [undefined, null, [], {}, "Hi", 1], "messages: expected a list"],
    ["stream", ["true", 1, {}, []], "stream: "],
    ["stream_options", [true, "x", 1, []], "stream_options: "],
    ["stream_options", usages, "stream_options.include_usage: expected true or false"],
    ["max_tokens", limits, "max_tokens: "],
    ["max_completion_tokens", limits, "max_completion_tokens: "],
    ["chat_template_kwargs", [true, "x", 1, []], "chat_template_kwargs: "],
    ["extra_body", [true, "x", 1, []], "extra_body: "],
  ];
  for (const [name, values, reason] of wrong) {
    it(`${name} of another form: ${reason}`, () => {
      for (const value of values)
        assert.ok(refused(chatBody({ [name]: value })).startsWith(reason));
    });
  }

  it("an invalid message, with its index", () => {
    const good = { role: "user", content: "Hi" };
    const part = (one: unknown): object => ({ ...good, content: [one] });
    const bad: readonly [unknown, string][] = [
      ...[null, "Hi", []].map((one): [unknown, string] => [one, ": expected an object"]),
      ...[undefined, "", 1].map((role): [unknown, string] => [{ ...good, role }, ".role: "]),
      [{ ...good, name: 1 }, ".name: "],
      [{ ...good, content: 1 }, ".content: "],
      [{ ...good, content: {} }, ".content: "],
      [part("Hi"), ".content[0]: "],
      [part(null), ".content[0]: "],
      [part({ text: "Hi" }), ".content[0].type: "],
      [part({ type: 1 }), ".content[0].type: "],
      [part({ type: "text" }), ".content[0].text: "],
      [part({ type: "text", text: 1 }), ".content[0].text: "],
    ];
    for (const [message, why] of bad) {
      const reason = refused(chatBody({ messages: [good, message] }));
      assert.ok(reason.startsWith(`messages[1]${why}`), reason);
    }
  });

  it("template arguments that are nested too deeply to be serialized again", () => {
    const nested = (levels: number): unknown => JSON.parse("[".repeat(levels) + "]".repeat(levels));
    read({ chat_template_kwargs: { documents: nested(40) } });
    for (const levels of [65, 1_000_000]) {
      const reason = refused(chatBody({ chat_template_kwargs: { documents: nested(levels) } }));
      assert.match(reason, /nested deeper than 64/);
    }
    // Ignored members may be nested to any depth.
    read({ tools: nested(1_000_000) });
  });
});

describe("the documented schema", () => {
  it("generated types require the model and the messages of a request without extra_body", () => {
    const [usual] = requestSchema.anyOf;
    assert.deepEqual(usual?.required, ["model", "messages"]);
    assert.ok(["model", "messages"].every((name) => name in (usual?.properties ?? {})));
  });

  const isDocumented = new Ajv2020({ allowUnionTypes: true }).compile(requestSchema);
  const scalar = fc.oneof(
    fc.constantFrom(null, true, "", "text", 0, 1, -1, 1.5, 1e7, 1e7 + 1),
    fc.string(),
  );
  const mostly = (good: unknown): fc.Arbitrary<unknown> =>
    fc.oneof({ weight: 8, arbitrary: fc.constant(good) }, fc.constant(null), scalar);
  const list = (item: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> =>
    fc.oneof({ weight: 8, arbitrary: fc.array(item, { maxLength: 3 }) }, scalar);
  /** A body with arbitrary members, or any other value. */
  const record = (members: Record<string, fc.Arbitrary<unknown>>): fc.Arbitrary<unknown> =>
    fc.oneof({ weight: 12, arbitrary: fc.record(members, { requiredKeys: [] }) }, scalar);

  const part = record({ type: mostly("text"), text: mostly("hello") });
  const message = fc.oneof(
    fc.constant({ role: "user", content: "hello" }),
    record({
      role: mostly("user"),
      name: mostly("Ann"),
      content: fc.oneof(list(part), mostly("hello")),
    }),
  );
  const members = {
    model: mostly("M/One-1"),
    messages: list(message),
    max_tokens: mostly(5),
    max_completion_tokens: mostly(5),
    stream: mostly(true),
    stream_options: record({ include_usage: mostly(true) }),
    chat_template_kwargs: record({ enable_thinking: scalar }),
    anything: fc.jsonValue({ maxDepth: 1 }),
  };
  const extra = record({ ...members, extra_body: scalar });
  /** Only a few members can be wrong, so many bodies are valid. */
  const short = fc.record(
    { model: fc.constant("M/One-1"), messages: list(message), extra_body: extra },
    { requiredKeys: [] },
  );
  const body = fc.oneof(short, record({ ...members, extra_body: extra }), list(scalar));

  const known = ["model", "messages", "max_tokens", "stream", "stream_options"];
  known.push("chat_template_kwargs");

  it("accepts exactly the requests that the reader accepts, and workers get only documented members", () => {
    const seen = { taken: 0, refused: 0, completedByExtra: 0 };
    fc.assert(
      fc.property(fc.oneof({ weight: 9, arbitrary: body }, fc.jsonValue()), (value) => {
        const reading = readChatRequest(value);
        const { ok } = reading;
        if (reading.ok) {
          const { request } = reading;
          const members_ = Object.keys(JSON.parse(request.body.toString()) as object);
          assert.ok(members_.every((name) => known.includes(name)));
          assert.ok(request.maxPromptTokens >= request.promptBytes);
        } else assert.notEqual(reading.message, "");
        seen[ok ? "taken" : "refused"]++;
        if (ok && !("messages" in Object(value))) seen.completedByExtra++;
        assert.equal(isDocumented(value), ok, JSON.stringify(value));
      }),
      { numRuns: 10_000 },
    );
    for (const count of Object.values(seen)) assert.ok(count > 100, JSON.stringify(seen));
  });
});
