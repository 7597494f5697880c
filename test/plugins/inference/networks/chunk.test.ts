/** Texts that are not chunks, and members that occur twice. For all others see test/fuzz/targets/chat-chunks.ts. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { readAlone as read } from "./read-chunk.ts";

const nothing = {
  choice: undefined,
  hasContent: false,
  renamed: undefined,
  finishReason: undefined,
  usage: undefined,
  isError: false,
};

const invalid = [
  "",
  " ",
  "null",
  "1",
  '"choices"',
  "[]",
  '[{"choices":[]}]',
  "{",
  "}",
  "{}}",
  "{}{}",
  "{} x",
  "{,}",
  '{"a"}',
  '{"a":}',
  '{"a":1,}',
  '{"a" 1}',
  "{a:1}",
  '{"a":01}',
  '{"a":tru}',
  "[DONE",
  '{"choices":[{"delta":{"content":"a"}]}',
  '{"usage":{"a":1}',
  '{"a":"\\x"}',
  '{"a":\n"',
  '{"a":'.repeat(500),
  `{"a":${"[".repeat(500)}${"]".repeat(500)}}`,
];

test("a text that is not a JSON object is not a chunk", () => {
  for (const text of invalid) assert.equal(read(text), undefined, text.slice(0, 40));
});

const content = '{"index":0,"delta":{"content":"a"},"finish_reason":null}';

test("the last of two members with the same name is used", () => {
  const twice = `{"choices":[${content}],"choices":[],"error":1,"error":null,"usage":{},"usage":1}`;
  assert.deepEqual(read(twice), nothing);
});

test("a chunk with an escape in a name of its choice is none, because texts there are not counted", () => {
  const call = (text: string): string => `{"delta":{"tool_calls":[{"index":0,${text}}]}}`;
  for (const choice of [
    '{"\\u0064elta":{"content":"a"}}',
    '{"delta":{"\\u0063ontent":"a"}}',
    '{"delta":{"tool\\u005fcalls":[]}}',
    call('"\\u0066unction":{"arguments":"a"}'),
    call('"function":{"\\u0061rguments":"a"}'),
  ]) {
    assert.equal(read(`{"choices":[${choice}]}`), undefined, choice);
  }
  assert.equal(read('{"choices":[{"delta":{"content":"\\u0063"}}]}')?.hasContent, true);
});
