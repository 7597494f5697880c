/** How the demo model splits text into tokens, and where it stops. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { assert as check, lorem, oneof, property, string } from "fast-check";
import { readChatRequest } from "../../../../plugins/inference/demo/chat-request.ts";
import { echo, maxAnswerTokens, tokensOf } from "../../../../plugins/inference/demo/echo.ts";

const chatRequest = (text: string, maxTokens?: number, thinking = false) => ({
  messages: [{ role: "user", text }],
  stream: false,
  includeUsage: false,
  thinking,
  maxTokens,
});

test("the joined tokens are the text, and no token is empty or long", () => {
  check(
    property(oneof(string({ unit: "binary" }), lorem()), (text) => {
      const tokens = tokensOf(text);
      assert.equal(tokens.join(""), text);
      for (const token of tokens) assert.ok(token.length >= 1 && token.length <= 36);
    }),
  );
});

test("a surrogate pair is never split between two tokens", () => {
  assert.deepEqual(tokensOf("😀".repeat(13)), ["😀".repeat(12), "😀"]);
});

test("the last user message is repeated, whatever follows it", () => {
  const messages = [
    { role: "user", text: "first" },
    { role: "user", text: "second words" },
    { role: "assistant", text: "between" },
  ];
  const { content, usage } = echo({ ...chatRequest(""), messages });
  assert.deepEqual(content, ["second", " words"]);
  assert.deepEqual(usage, { prompt_tokens: 4, completion_tokens: 2, total_tokens: 6 });
});

test("without a user message, the last message is repeated", () => {
  const messages = [{ role: "system", text: "be brief" }];
  assert.deepEqual(echo({ ...chatRequest(""), messages }).content, ["be", " brief"]);
});

test("an empty text is answered without tokens", () => {
  const { content, finishReason, usage } = echo(chatRequest(""));
  assert.deepEqual([content, finishReason, usage.completion_tokens], [[], "stop", 0]);
});

test("max_tokens cuts reasoning and content, and the finish reason is length", () => {
  const whole = echo(chatRequest("one two three", undefined, true));
  assert.equal(whole.finishReason, "stop");
  const thoughts = whole.reasoning.length;
  const cut = echo(chatRequest("one two three", thoughts + 1, true));
  assert.deepEqual(cut.content, ["one"]);
  assert.equal(cut.finishReason, "length");
  const thinking = echo(chatRequest("one two three", 2, true));
  assert.deepEqual([thinking.reasoning.length, thinking.content], [2, []]);
});

test("an answer ends at the limit of the model, whatever max_tokens allows", () => {
  const { content, finishReason } = echo(chatRequest("word ".repeat(maxAnswerTokens + 10), 1e9));
  assert.deepEqual([content.length, finishReason], [maxAnswerTokens, "length"]);
});

test("a request that is not valid is refused with its member", () => {
  const model = "m";
  const messages = [{ role: "user", content: "hi" }];
  const image = [{ role: "user", content: [{ type: "image_url" }] }];
  for (const [body, param] of [
    ["{", null],
    [[], null],
    [{ messages }, "model"],
    [{ model: 1, messages }, "model"],
    [{ model }, "messages"],
    [{ model, messages: [] }, "messages"],
    [{ model, messages: [{ content: "" }] }, "messages"],
    [{ model, messages: [null] }, "messages"],
    [{ model, messages: image }, "messages"],
    [{ model, messages, max_tokens: 0 }, "max_tokens"],
    [{ model, messages, max_tokens: 1.5 }, "max_tokens"],
  ] as const) {
    const text = typeof body === "string" ? body : JSON.stringify(body);
    const read = readChatRequest(text, model);
    assert.ok("error" in read, text);
    assert.deepEqual([read.status, read.error.param], [400, param], text);
  }
});

test("supported members are read, and the text parts of a message are joined", () => {
  const content = [
    { type: "text", text: "a" },
    { type: "text", text: "b" },
  ];
  const read = readChatRequest(
    JSON.stringify({
      model: "m",
      messages: [{ role: "user", content }],
      stream: true,
      stream_options: { include_usage: true },
      chat_template_kwargs: { enable_thinking: true },
      max_tokens: 9,
      max_completion_tokens: 4,
      temperature: "not heeded",
    }),
    "m",
  );
  assert.deepEqual(read, {
    messages: [{ role: "user", text: "ab" }],
    stream: true,
    includeUsage: true,
    thinking: true,
    maxTokens: 4,
  });
});
