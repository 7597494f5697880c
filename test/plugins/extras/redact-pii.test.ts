import assert from "node:assert/strict";
import { test } from "node:test";
import type { Exchange } from "../../../src/plugin.ts";
import { testStep } from "../../../plugins/contracts/testing.ts";
import plugin, { replaceCards } from "../../../plugins/extras/redact-pii/index.ts";

/** Answers with the body that the step has let pass. */
const surface = {
  body: { bytes: 10_000 },
  answer: (x: Exchange) => ({ status: 200, body: x.body?.toString() ?? "" }),
};

test("personal data in texts and parts is replaced, and nothing else", async () => {
  await using tested = await testStep(plugin, { surface });
  const request = (first: string, second: string): object => ({
    model: "m",
    messages: [
      { role: "user", content: first },
      { role: "user", content: [{ type: "text", text: second }, { type: "image_url" }] },
    ],
  });
  const body = request(
    "I am ada@acme.test, 4111 1111 1111 1111",
    "DE89 3704 0044 0532 0130 00, 1234567890123",
  );
  const { body: passed } = await tested.send({ body });
  assert.deepEqual(JSON.parse(passed), request("I am [EMAIL], [CARD]", "[IBAN], 1234567890123"));
});

test("names, reasoning and the variables of the template are redacted", async () => {
  await using tested = await testStep(plugin, { surface });
  const request = (text: string, number: unknown): object => ({
    messages: [{ role: "user", content: "hi", name: text, reasoning_content: text }],
    chat_template_kwargs: { documents: [{ text, number }] },
  });
  const body = request("ada@acme.test", 4_111_111_111_111_111);
  const { body: passed } = await tested.send({ body });
  assert.deepEqual(JSON.parse(passed), request("[EMAIL]", "[CARD]"));
});

test("a request without personal data keeps its bytes", async () => {
  await using tested = await testStep(plugin, { surface });
  const body = '{ "messages" : [ { "content" : "hello" } ] }';
  assert.equal((await tested.send({ body })).body, body);
  assert.equal((await tested.send({ body: "no JSON" })).body, "no JSON");
});

test("a card number is found among other digits", async () => {
  await using tested = await testStep(plugin, { surface });
  const cases = [
    ["4111 1111 1111 1111 12/27", "[CARD] 12/27"],
    ["4111 1111 1111 1111 123", "[CARD] 123"],
    ["4111111111111111 123, 4111-1111-1111-1111", "[CARD] 123, [CARD]"],
    ["2024 4111 1111 1111 1111 12/27 123", "2024 [CARD] 12/27 123"],
    // Only whole groups of digits are a card number.
    ["4111111111111111123", "4111111111111111123"],
    ["a4111111111111111, 4111111111111111_", "a4111111111111111, 4111111111111111_"],
    ["4111  1111 1111 1111", "4111  1111 1111 1111"],
  ] as const;
  for (const [text, expected] of cases) {
    const { body } = await tested.send({ body: { messages: [{ content: text }] } });
    assert.deepEqual(JSON.parse(body), { messages: [{ content: expected }] });
  }
});

test("a text that could begin a card number everywhere is read a limited number of times", async () => {
  for (const unit of ["1-", "1 ", "1", "1111 ", "11 11 "]) {
    for (const length of [2_000, 20_000]) {
      const text = unit.repeat(length / unit.length);
      let reads = 0;
      const counted = Object.assign(new Object(text) as string, {
        charCodeAt: (at: number): number => (reads++, text.charCodeAt(at)),
      });
      assert.equal(
        replaceCards(counted, () => assert.fail("no card")),
        text,
      );
      assert.ok(reads < 25 * length, `${reads} reads of ${length} characters`);
    }
  }
  await using tested = await testStep(plugin, { surface: { ...surface, body: { bytes: 1e6 } } });
  const request = (end: string): object => ({
    messages: [{ content: "1 ".repeat(450_000) + end }],
  });
  const { body } = await tested.send({ body: request("is 4111-1111-1111-1111.") });
  assert.deepEqual(JSON.parse(body), request("is [CARD]."));
});

test("the arguments of tool calls are redacted and remain JSON", async () => {
  await using tested = await testStep(plugin, { surface });
  const request = (...texts: readonly string[]): object => ({
    messages: [
      {
        role: "assistant",
        content: null,
        tool_calls: texts.map((text) => ({
          id: "1",
          type: "function",
          function: { name: "pay", arguments: text },
        })),
      },
    ],
  });
  const body = request(
    '{ "to": "ada\\u0040acme.test", "card": 4111111111111111, "count": 1 }',
    '{ "of": [{ "ada@acme.test": null }] }',
    "ada@acme.test {",
    '{ "a" : 1 }',
  );
  const { body: passed } = await tested.send({ body });
  const expected = request(
    '{"to":"[EMAIL]","card":"[CARD]","count":1}',
    '{"of":[{"[EMAIL]":null}]}',
    "[EMAIL] {",
    '{ "a" : 1 }',
  );
  assert.deepEqual(JSON.parse(passed), expected);
});

for (const [api, request] of Object.entries({
  responses: (text: string, number: unknown): object => ({
    instructions: text,
    input: [
      { role: "user", content: [{ type: "input_text", text }] },
      { type: "function_call", name: "pay", arguments: JSON.stringify({ text, number }) },
      { type: "function_call_output", output: text },
      { type: "custom_tool_call", name: "pay", input: text },
      { type: "reasoning", content: [{ type: "reasoning_text", text }] },
      { type: "reasoning", summary: [{ type: "summary_text", text }] },
      { role: "assistant", content: [{ type: "refusal", refusal: text }] },
    ],
  }),
  messages: (text: string, number: unknown): object => ({
    system: [{ type: "text", text }],
    messages: [
      { role: "user", content: text },
      { role: "assistant", content: [{ type: "tool_use", name: "pay", input: { text, number } }] },
      { role: "assistant", content: [{ type: "thinking", thinking: text }] },
      { role: "user", content: [{ type: "tool_result", content: [{ type: "text", text }] }] },
      { role: "user", content: [{ type: "tool_result", content: text }] },
    ],
  }),
  embeddings: (text: string): object => ({ input: [text, "hello"] }),
  "embeddings of tokens": (): object => ({ input: [[1, 2], [4_111]] }),
})) {
  test(`the texts of ${api} are redacted`, async () => {
    await using tested = await testStep(plugin, { surface });
    const { body } = await tested.send({ body: request("ada@acme.test", 4_111_111_111_111_111) });
    assert.deepEqual(JSON.parse(body), request("[EMAIL]", "[CARD]"));
  });
}
