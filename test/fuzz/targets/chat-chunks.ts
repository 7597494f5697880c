/** Chunks of streamed answers: the reader, which does not build values, finds the same members as JSON.parse. */
import assert from "node:assert/strict";
import * as fc from "fast-check";
import { readAlone, type ReadChunk } from "../../plugins/inference/networks/read-chunk.ts";
import { isObject } from "../../../src/base/is-object.ts";
import type { FuzzTarget } from "../target.ts";

type Json = Readonly<Record<string, unknown>>;

function isText(value: unknown): value is string {
  return typeof value === "string" && value !== "";
}

function hasText(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return isText(value);
  return Object.values(value).some(hasText);
}

function judged(text: string): { readonly read: ReadChunk; readonly renamed: unknown } {
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
      hasContent: [content, thought, reasoning].some(hasText),
      renamed: undefined,
      // The text as it was written, with its escapes.
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

/** True if a name in the first choice, or in its delta is written with an escape: the reader refuses such a chunk. */
function hasEscapedName(document: Json): boolean {
  const { choices } = document;
  const choice: unknown = Array.isArray(choices) ? choices[0] : undefined;
  const delta = isObject(choice) ? choice["delta"] : undefined;
  return [choice, delta].some(
    (value) =>
      isObject(value) && Object.keys(value).some((name) => JSON.stringify(name).includes("\\")),
  );
}

/** Compares values, because white space does not matter. */
function sameAsParsed(text: string): void {
  const found = readAlone(text);
  if (hasEscapedName(JSON.parse(text) as Json)) {
    assert.equal(found, undefined, text);
    return;
  }
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

// The relevant names also appear in wrong places and with wrong values.
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

export const chatChunks: FuzzTarget = {
  name: "chat-chunks",
  async run(random) {
    const written = fc.tuple(chunks, spaces, fc.constantFrom("", " ", "\r\n\t"));
    const title = "a chunk is read as JSON.parse reads it";
    await random.check(title, written, 1_000, ([document, indent, around]) => {
      sameAsParsed(`${around}${JSON.stringify(document, undefined, indent)}${around}`);
    });
    const cut = fc.tuple(chunks, fc.nat());
    await random.check("a truncated chunk is not read as a chunk", cut, 200, ([document, at]) => {
      const text = JSON.stringify(document);
      assert.equal(readAlone(text.slice(0, at % text.length)), undefined);
    });
  },
};
