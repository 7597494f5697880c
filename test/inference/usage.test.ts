import assert from "node:assert/strict";
import { test } from "node:test";
import { countUsage, readUsage } from "../../src/inference/usage.ts";

const said = { prompt_tokens: 7, completion_tokens: 11, total_tokens: 18 };
const plain = {
  promptTokens: 7,
  completionTokens: 11,
  cachedTokens: undefined,
  reasoningTokens: undefined,
  estimated: false,
};

test("a worker's report is taken with its details", () => {
  const usage = {
    ...said,
    prompt_tokens_details: { cached_tokens: 7, audio_tokens: 1 },
    completion_tokens_details: { reasoning_tokens: 0 },
  };
  assert.deepEqual(readUsage(usage), { ...plain, cachedTokens: 7, reasoningTokens: 0 });
});

test("a total that is no sum is not believed, nor missed", () => {
  assert.deepEqual(readUsage({ ...said, total_tokens: 1e300 }), plain);
  assert.deepEqual(readUsage({ prompt_tokens: 7, completion_tokens: 11 }), plain);
});

for (const value of [undefined, null, -1, 0.5, 1e300, 1e9 + 1, NaN, "7", [7], {}, true]) {
  for (const name of ["prompt_tokens", "completion_tokens"]) {
    test(`${name} of ${JSON.stringify(value)} makes it no report`, () => {
      assert.equal(readUsage({ ...said, [name]: value }), undefined);
    });
  }
}

for (const value of [undefined, null, 1, "usage", [], true]) {
  test(`${JSON.stringify(value)} is no report`, () => {
    assert.equal(readUsage(value), undefined);
  });
}

for (const count of [-1, 0.5, 8, 1e300, "3", null, {}]) {
  test(`${JSON.stringify(count)} of 7 tokens cached is not believed, the rest is`, () => {
    const usage = { ...said, prompt_tokens_details: { cached_tokens: count } };
    assert.deepEqual(readUsage(usage), plain);
  });
}

for (const details of [null, [], "many", 5]) {
  test(`details that are ${JSON.stringify(details)} say nothing`, () => {
    const usage = { ...said, prompt_tokens_details: details, completion_tokens_details: details };
    assert.deepEqual(readUsage(usage), plain);
  });
}

test("what nobody reports is counted: characters by four, rounded up, and chunks", () => {
  const counted = { ...plain, estimated: true };
  const byChunks = countUsage(9, { chunks: 5 });
  assert.deepEqual(byChunks, { ...counted, promptTokens: 3, completionTokens: 5 });
  const byChars = countUsage(0, { chars: 8 });
  assert.deepEqual(byChars, { ...counted, promptTokens: 0, completionTokens: 2 });
});
