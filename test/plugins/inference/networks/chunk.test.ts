/**
 * Tests of the codec of chunks: what is not a chunk, and chunks that differ only in their text. For all others see
 * test/fuzz/targets/chat-chunks.ts.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { readAlone as read } from "./read-chunk.ts";
import { StreamedAnswer } from "../../../../plugins/inference/networks/worker-answer.ts";

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

const textChoice = '{"index":0,"delta":{"content":"a"},"finish_reason":null}';

test("the last of two members with the same name is used", () => {
  const twice = `{"choices":[${textChoice}],"choices":[],"error":1,"error":null,"usage":{},"usage":1}`;
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

interface Received {
  readonly choices: readonly string[];
  readonly isBroken: boolean;
  readonly content: number;
  /** UTF-8 bytes of the content. */
  readonly bytes: number;
  readonly finishReason: string | undefined;
}

function receive(chunks: readonly string[]): Received {
  const choices: string[] = [];
  let isBroken = false;
  const answer = new StreamedAnswer({
    onChoice: (bytes, start, end) => choices.push(bytes.toString("utf8", start, end)),
    onEnd: () => undefined,
    onError: () => (isBroken = true),
  });
  for (const chunk of chunks) {
    const event = Buffer.from(`data: ${chunk}\n\n`);
    answer.write(event, 0, event.length);
  }
  const { finishReason, produced } = answer;
  return { choices, isBroken, content: produced.chunks, bytes: produced.bytes, finishReason };
}

function receiveEach(chunks: readonly string[]): Received {
  const each = chunks.map((chunk) => receive([chunk]));
  const broken = each.findIndex(({ isBroken }) => isBroken);
  const whole = broken === -1 ? each : each.slice(0, broken);
  return {
    choices: whole.flatMap(({ choices }) => choices),
    isBroken: broken !== -1,
    content: whole.reduce((sum, { content }) => sum + content, 0),
    bytes: whole.reduce((sum, { bytes }) => sum + bytes, 0),
    finishReason: whole.find(({ finishReason }) => finishReason !== undefined)?.finishReason,
  };
}

function chunkOf(text: string, more = ""): string {
  return `{"id":"c","choices":[{"index":0,"delta":{"content":${text}}${more}}],"usage":null}`;
}

/** Texts as in a chunk: complete, empty, with escapes, with forbidden characters, or not a string. */
const text = fc.oneof(
  fc.string({ unit: "binary", maxLength: 8 }).map((one) => JSON.stringify(one)),
  fc.constantFrom('""', '"a"', '"\\\\"', '"\\"', '"\\"b"', '"a","content":"b"', '"\t"', '"\\x"'),
  fc.constantFrom("null", "7", '"a"}', '"a"},"x":{"y":1', '"'),
);

const chunk = fc.oneof(
  { weight: 4, arbitrary: text.map((one) => chunkOf(one)) },
  text.map((one) => chunkOf(one, ',"finish_reason":null')),
  text.map((one) => chunkOf(one, ',"finish_reason":"stop"')),
  text.map((one) => chunkOf(one).replace("content", "reasoning")),
  text.map((one) => chunkOf(one).replace("content", "reasoning_content")),
  text.map((one) => chunkOf(one).replace('"content"', '"role":"assistant","content"')),
  text.map((one) => chunkOf(one).replace("null}", '{"prompt_tokens":1}}')),
  // This one has the same length as the others.
  text.map((one) => chunkOf(one).replace('"usage":null', '"error":true')),
  text.map((one) => chunkOf(one).replace('"content"', '"refusal"')),
);

test("a chunk has the same result after other chunks as alone", () => {
  fc.assert(
    fc.property(fc.array(chunk, { maxLength: 8 }), (chunks) => {
      assert.deepEqual(receive(chunks), receiveEach(chunks));
    }),
    { numRuns: 3_000 },
  );
});

test("chunks that differ only in their text are reported with it, and an empty text is not content", () => {
  const texts = ['"one"', '""', '"\\"two\\""', '"drei €"', '"four"'];
  const received = receive(texts.map((one) => chunkOf(one)));
  assert.deepEqual(
    received.choices,
    texts.map((one) => `{"index":0,"delta":{"content":${one}}}`),
  );
  assert.equal(received.content, 4);
});

test("text is counted in UTF-8 bytes, however the worker escapes it", () => {
  const escaped = (one: string): string =>
    JSON.stringify(one).replaceAll(
      /[^ -~]/g,
      (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
    );
  fc.assert(
    fc.property(fc.string({ unit: "grapheme", minLength: 1, maxLength: 20 }), (one) => {
      const bytes = Buffer.byteLength(one);
      assert.equal(receive([chunkOf(JSON.stringify(one))]).bytes, bytes);
      assert.equal(receive([chunkOf(escaped(one)), chunkOf(escaped(one))]).bytes, 2 * bytes);
    }),
  );
  assert.equal(receive([chunkOf('"\\n\\u0041\\u00e9\\/"')]).bytes, 5);
});
