/** Tests of the parser of chat requests in an enclave, and of the state machine that batches the text of answers. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import * as fc from "fast-check";
import { readChatRequest } from "../../../../plugins/confidential/enclave/chat-request.ts";
import { createRequestBuffer } from "../../../../plugins/confidential/enclave/request-buffer.ts";
import { prepare } from "./client.ts";
import { createDeltaBatch } from "../../../../plugins/confidential/enclave/delta-batch.ts";
import type { DeltaBatch } from "../../../../plugins/confidential/enclave/delta-batch.ts";
import { maxFrameDataBytes } from "../../../../plugins/confidential/protocol/limits.ts";
import { manualClock, type ManualClock } from "../../../../src/testing/clock.ts";

const { hello } = await prepare({ maxOutputTokens: 100 });
const base = { model: hello.model, messages: [{ role: "user", content: "hi" }] };

function read(asked: object): ReturnType<typeof readChatRequest> {
  return readChatRequest(Buffer.from(JSON.stringify(asked)), hello);
}

function bodyOf(asked: object): Record<string, unknown> {
  const request = read(asked);
  assert.ok("body" in request, JSON.stringify(request));
  return JSON.parse(request.body.toString()) as Record<string, unknown>;
}

describe("a decrypted request", () => {
  test("gets the limit of hello if it has none, and the lower of two limits", () => {
    assert.equal(bodyOf(base)["max_tokens"], 100);
    assert.equal(bodyOf({ ...base, max_tokens: null, n: null })["max_tokens"], 100);
    assert.equal(bodyOf({ ...base, max_tokens: 100 })["max_tokens"], 100);
    assert.equal(bodyOf({ ...base, max_tokens: 9, max_completion_tokens: 3 })["max_tokens"], 3);
  });

  test("is also measured by its tools, its format, and the calls and the reasoning of earlier answers", () => {
    const tools = [{ type: "function" }];
    const calls = [{ id: "1" }];
    const message = { content: "two", reasoning_content: "four", tool_calls: calls };
    const format = { type: "json_object" };
    const request = read({ ...base, messages: [message], tools, response_format: format });
    assert.ok("body" in request);
    const texts = ["two", "four", ...[tools, calls, format].map((one) => JSON.stringify(one))];
    assert.equal(request.promptBytes, texts.join("").length);
  });

  test("with any JSON is either refused or within the limits of hello", () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.jsonValue(), fc.jsonValue(), (limit, n, messages) => {
        const request = read({ ...base, max_tokens: limit, n, messages });
        if ("code" in request) return;
        assert.ok(request.maxTokens >= 1 && request.maxTokens <= 100);
        const body = JSON.parse(request.body.toString()) as Record<string, unknown>;
        assert.equal(body["max_tokens"], request.maxTokens);
        assert.equal(body["stream"], true);
      }),
    );
  });

  test("cannot add members through names that are special in JavaScript", () => {
    const text = `{"model":"${hello.model}","messages":[1],"__proto__":{"max_tokens":5000}}`;
    const request = readChatRequest(Buffer.from(text), hello);
    assert.ok("body" in request);
    assert.equal(request.maxTokens, 100);
    assert.match(request.body.toString(), /"max_tokens":100/);
  });
});

describe("the buffer of a request", () => {
  test("returns the data that was added and is empty afterwards", () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 3_000 }), { maxLength: 12 }), (pieces) => {
        const buffer = createRequestBuffer();
        for (const piece of pieces) buffer.append(piece);
        assert.deepEqual(buffer.take(), Buffer.concat(pieces));
        assert.equal(buffer.take().length, 0);
      }),
    );
  });
});

interface Started {
  readonly clock: ManualClock;
  readonly batch: DeltaBatch;
  readonly sent: Record<string, unknown>[];
  readonly sizes: number[];
}

function start(): Started {
  const clock = manualClock();
  const sent: Record<string, unknown>[] = [];
  const sizes: number[] = [];
  const batch = createDeltaBatch(clock, (data) => {
    sizes.push(data.length);
    sent.push(JSON.parse(Buffer.from(data).toString()) as Record<string, unknown>);
  });
  return { clock, batch, sent, sizes };
}

function argumentsOf(deltas: readonly object[], index: number): string {
  const calls = (deltas as readonly { readonly tool_calls?: readonly ToolCall[] }[]).flatMap(
    ({ tool_calls: list = [] }) => list,
  );
  return calls.map((one) => (one.index === index ? one.function.arguments : "")).join("");
}

interface ToolCall {
  readonly index: number;
  readonly function: { readonly arguments: string };
}

describe("batches of deltas", () => {
  test("the first text is sent immediately, with the role that came before it", () => {
    const { batch, sent } = start();
    batch.add({ role: "assistant", content: "" });
    assert.deepEqual(sent, []);
    batch.add({ content: "The" });
    assert.deepEqual(sent, [{ role: "assistant", content: "The" }]);
  });

  test("later text is sent after eight tokens or 40 ms", () => {
    const { batch, sent, clock } = start();
    batch.add({ content: "0" });
    for (const content of ["1", "2", "3", "4", "5", "6", "7"]) batch.add({ content });
    assert.equal(sent.length, 1);
    batch.add({ content: "8" });
    assert.deepEqual(sent.slice(1), [{ content: "12345678" }]);
    batch.add({ content: "9" });
    clock.advance(39);
    assert.equal(sent.length, 2);
    batch.add({ content: "a" });
    clock.advance(1);
    assert.deepEqual(sent.slice(2), [{ content: "9a" }]);
    clock.advance(1_000);
    assert.equal(sent.length, 3);
  });

  test("a role alone is sent after 40 ms, and empty deltas are not sent", () => {
    const { batch, sent, clock } = start();
    batch.add({ role: "assistant", content: "" });
    clock.advance(40);
    assert.deepEqual(sent, [{ role: "assistant" }]);
    batch.add({});
    batch.add({ content: "" });
    batch.add({ content: null, refusal: null });
    clock.advance(1_000);
    batch.flush();
    assert.equal(sent.length, 1);
  });

  test("reasoning is sent before content, and deltas that cannot be combined are sent alone in order", () => {
    const { batch, sent } = start();
    batch.add({ content: "0" });
    batch.add({ reasoning_content: "hm" });
    batch.add({ content: "1" });
    batch.add({ reasoning_content: "hm again" });
    const other = { refusal: "no" };
    batch.add(other);
    batch.add({ content: "2" });
    batch.flush();
    assert.deepEqual(sent, [
      { content: "0" },
      { reasoning_content: "hm", content: "1" },
      { reasoning_content: "hm again" },
      other,
      { content: "2" },
    ]);
  });

  test("the sizes of the frames of a call do not show the parts in which the model wrote it", () => {
    const sizesOf = (lengths: readonly number[]): readonly number[] => {
      const { batch, sizes } = start();
      const begin = { index: 0, id: "call_1", function: { name: "edit", arguments: "" } };
      batch.add({ tool_calls: [begin] });
      for (const length of lengths) {
        batch.add({ tool_calls: [{ index: 0, function: { arguments: "x".repeat(length) } }] });
      }
      batch.flush();
      return sizes;
    };
    const even = [2, 2, 2, 2, 2, 2, 2, 2];
    const uneven = [1, 1, 1, 1, 1, 1, 1, 9];
    const sizes = sizesOf([...even, ...even]);
    assert.equal(sizes.length, 3);
    assert.deepEqual(sizesOf([...even, ...uneven]), sizes);
    assert.deepEqual(sizesOf([...uneven.toReversed(), ...uneven]), sizes);
  });

  test("calls in other forms are sent alone, as they are", () => {
    const called = { name: "f", arguments: "" };
    const others: unknown[] = [
      "x",
      [7],
      [{ id: "1", function: called }],
      [{ index: 0, function: "f" }],
      [{ index: 0, function: { ...called, arguments: {} } }],
      [{ index: 0, function: { ...called, more: 1 } }],
      [{ index: 0, extra_content: {}, function: called }],
      [{ index: 0, id: "x".repeat(257) }],
      [{ index: 0 }, { index: 0 }],
      Array.from({ length: 17 }, (_, index) => ({ index })),
    ];
    const { batch, sent } = start();
    for (const calls of others) batch.add({ tool_calls: calls });
    assert.deepEqual(
      sent,
      others.map((calls) => ({ tool_calls: calls })),
    );
  });

  test("log probabilities are batched with their text", () => {
    const { batch, sent, clock } = start();
    const entry = (token: string): object => ({ token, logprob: -1, top_logprobs: [] });
    batch.add({ content: "a" }, [entry("a")]);
    batch.add({ content: "b" }, [entry("b")]);
    batch.add({ content: "c" }, [entry("c"), "none", { token: "x".repeat(9_000) }]);
    clock.advance(40);
    assert.deepEqual(sent, [
      { content: "a", logprobs: { content: [entry("a")] } },
      { content: "bc", logprobs: { content: [entry("b"), entry("c")] } },
    ]);
  });

  test("all text arrives completely, in frames within the size limit", () => {
    const text = fc.oneof(
      fc.string({ unit: "binary", maxLength: 30 }),
      fc.integer({ min: 1, max: 30_000 }).map((length) => "\u0001".repeat(length)),
      fc.integer({ min: 4_000, max: 4_100 }).map((at) => `${"a".repeat(at)}😀😀`),
    );
    const call = fc.record({
      index: fc.integer({ min: 0, max: 3 }),
      function: fc.record({ arguments: text }),
    });
    const calls = fc.uniqueArray(call, { maxLength: 3, selector: ({ index }) => index });
    const delta = fc.record(
      { content: text, reasoning_content: text, tool_calls: calls },
      { requiredKeys: [] },
    );
    const step = fc.oneof(delta, fc.constantFrom("hold", "release", "wait"));
    fc.assert(
      fc.property(fc.array(step, { maxLength: 20 }), (steps) => {
        const { batch, sent, sizes, clock } = start();
        const [said, thought] = ["content", "reasoning_content"].map((name) =>
          steps
            .map((each) => (typeof each === "object" ? (each[name as "content"] ?? "") : ""))
            .join(""),
        );
        for (const each of steps) {
          if (typeof each === "object") batch.add(each);
          else if (each === "wait") clock.advance(40);
          else batch[each]();
        }
        batch.flush();
        const joined = (name: string): string =>
          sent.map((each) => (typeof each[name] === "string" ? each[name] : "")).join("");
        assert.equal(joined("content"), said);
        assert.equal(joined("reasoning_content"), thought);
        for (const index of [0, 1, 2, 3]) {
          const given = steps.filter((each) => typeof each === "object");
          assert.equal(argumentsOf(sent, index), argumentsOf(given, index));
        }
        for (const size of sizes) assert.ok(size <= maxFrameDataBytes);
        // A pair of surrogates that is torn apart would be escaped, one half at a time.
        for (const each of sent) assert.doesNotMatch(JSON.stringify(each), /\\ud[89ab]/);
      }),
      { numRuns: 60 },
    );
  });
});
