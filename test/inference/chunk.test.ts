import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { emptyChunk, readChunk } from "../../src/inference/chunk.ts";

/** What a chunk says, its ranges as text. */
interface Read {
  readonly choice: string | undefined;
  readonly hasContent: boolean;
  /** The choice with `reasoning` renamed where that is called for. */
  readonly renamed: string | undefined;
  readonly finishReason: string | undefined;
  readonly usage: string | undefined;
  readonly isError: boolean;
}

/** One for all: what an earlier chunk said must not be left in it. */
const chunk = emptyChunk();

/** Reads a chunk that stands in the middle of other bytes; undefined: it is none. */
function read(text: string): Read | undefined {
  const bytes = Buffer.from(`,}"${text}"]}`);
  const end = bytes.length - 3;
  if (!readChunk(bytes, 3, end, chunk)) return undefined;
  const { choiceStart, choiceEnd, usageStart, usageEnd, reasoningAt } = chunk;
  const choice = choiceStart < 0 ? undefined : bytes.toString("utf8", choiceStart, choiceEnd);
  const before = bytes.toString("utf8", choiceStart, Math.max(choiceStart, reasoningAt));
  return {
    choice,
    hasContent: chunk.hasContent,
    renamed:
      reasoningAt < 0
        ? choice
        : `${before}_content${bytes.toString("utf8", reasoningAt, choiceEnd)}`,
    finishReason: chunk.finishReason,
    usage: usageStart < 0 ? undefined : bytes.toString("utf8", usageStart, usageEnd),
    isError: chunk.isError,
  };
}

const nothing = {
  choice: undefined,
  hasContent: false,
  renamed: undefined,
  finishReason: undefined,
  usage: undefined,
  isError: false,
};

type Json = Readonly<Record<string, unknown>>;

function isObject(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isText(value: unknown): value is string {
  return typeof value === "string" && value !== "";
}

/** What the chunk says to one who parses it. */
function judged(text: string): { readonly read: Read; readonly renamed: unknown } {
  const document = JSON.parse(text) as Json;
  const choices: unknown = document["choices"];
  const choice: unknown = Array.isArray(choices) ? choices[0] : undefined;
  const delta = isObject(choice) ? choice["delta"] : undefined;
  const { content, reasoning_content: thought, reasoning } = isObject(delta) ? delta : {};
  const reason = isObject(choice) ? choice["finish_reason"] : undefined;
  const renames =
    isObject(choice) && isObject(delta) && "reasoning" in delta && !("reasoning_content" in delta);
  const { error = null, usage } = document;
  return {
    read: {
      choice: isObject(choice) ? JSON.stringify(choice) : undefined,
      hasContent: [content, thought, reasoning].some(isText),
      renamed: undefined,
      // As it is written, escapes included.
      finishReason: isText(reason) ? JSON.stringify(reason).slice(1, -1) : undefined,
      usage: isObject(usage) ? JSON.stringify(usage) : undefined,
      isError: error !== null,
    },
    renamed: renames
      ? { ...choice, delta: rename(delta, "reasoning", "reasoning_content") }
      : isObject(choice)
        ? choice
        : undefined,
  };
}

function rename(object: Json, from: string, to: string): Json {
  return Object.fromEntries(
    Object.entries(object).map(([name, value]) => [name === from ? to : name, value]),
  );
}

/** Both as values: white space does not matter. */
function sameAsParsed(text: string): void {
  const found = read(text);
  assert.ok(found, text);
  const { read: wanted, renamed } = judged(text);
  const parsed = (range: string | undefined): unknown =>
    range === undefined ? undefined : JSON.parse(range);
  const { choice, usage, renamed: foundRenamed, ...rest } = found;
  const { choice: wantedChoice, usage: wantedUsage, renamed: _, ...wantedRest } = wanted;
  assert.deepEqual(rest, wantedRest, text);
  assert.deepEqual(parsed(choice), parsed(wantedChoice), text);
  assert.deepEqual(parsed(usage), parsed(wantedUsage), text);
  assert.deepEqual(parsed(foundRenamed), renamed, text);
}

// Names that matter turn up in wrong places and with wrong values too.
const names = ["choices", "usage", "error", "delta", "finish_reason", "content", "reasoning"];
const texts = fc.oneof(
  fc.constantFrom("", "a", "[DONE]", '"', "\\", "}", "\n\t", "🎈", "x".repeat(40)),
  fc.string({ unit: "binary", maxLength: 40 }),
);
const junk = fc.letrec<{ value: unknown; object: Json }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    fc.oneof(texts, fc.double({ noNaN: true, noDefaultInfinity: true }), fc.constant(null)),
    fc.array(tie("value"), { maxLength: 3 }),
    tie("object"),
  ),
  object: fc.dictionary(fc.oneof(fc.constantFrom(...names), texts), tie("value"), { maxKeys: 4 }),
})).object;
const anything = fc.oneof(texts, fc.constant(null), fc.boolean(), fc.integer(), junk);
const deltas = fc.record(
  { role: anything, content: anything, reasoning_content: anything, reasoning: anything, x: junk },
  { requiredKeys: [] },
);
const choices = fc.record(
  { index: fc.nat(3), delta: fc.oneof(deltas, anything), finish_reason: anything, logprobs: junk },
  { requiredKeys: [] },
);
const chunks = fc.record(
  {
    id: anything,
    choices: fc.oneof(fc.array(fc.oneof(choices, anything), { maxLength: 3 }), anything),
    usage: anything,
    error: fc.option(anything),
    extra: junk,
  },
  { requiredKeys: [] },
);
const spaces = fc.constantFrom(0, 1, "\t", "\r\n ");

test("a chunk, however it is made, says what it says to one who parses it", () => {
  fc.assert(
    fc.property(chunks, spaces, fc.constantFrom("", " ", "\r\n\t"), (document, indent, around) => {
      sameAsParsed(`${around}${JSON.stringify(document, undefined, indent)}${around}`);
    }),
    { numRuns: 500 },
  );
});

test("a chunk cut short is none", () => {
  const pieces = fc.tuple(chunks, fc.nat());
  fc.assert(
    fc.property(pieces, ([document, at]) => {
      const text = JSON.stringify(document);
      assert.equal(read(text.slice(0, at % text.length)), undefined);
    }),
  );
});

for (const text of [
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
]) {
  test(`${JSON.stringify(text.slice(0, 40))} is no chunk`, () => {
    assert.equal(read(text), undefined);
  });
}

const content = '{"index":0,"delta":{"content":"a"},"finish_reason":null}';

test("of several choices the first is told, with its white space as it came", () => {
  const text = `{"choices":[ { "delta" : {"content":"b"} } ,${content}]}`;
  assert.equal(read(text)?.choice, '{ "delta" : {"content":"b"} }');
});

test("a finish reason that is an empty text is none", () => {
  assert.equal(read('{"choices":[{"finish_reason":""}]}')?.finishReason, undefined);
});

test("nothing of a chunk is left for the next", () => {
  read(`{"choices":[${content.replace("null", '"stop"')}],"usage":{},"error":1}`);
  assert.deepEqual(read("{}"), nothing);
});

for (const [name, text] of [
  ["null", '{"usage":null,"error":null,"choices":null}'],
  ["text", '{"usage":"many","choices":"none"}'],
  ["an empty list", '{"usage":[],"choices":[ ]}'],
] as const) {
  test(`usage and choices that are ${name} say nothing`, () => {
    assert.deepEqual(read(text), nothing);
  });
}

test("members that are named twice count as they stand last", () => {
  const twice = `{"choices":[${content}],"choices":[],"error":1,"error":null,"usage":{},"usage":1}`;
  assert.deepEqual(read(twice), nothing);
});
