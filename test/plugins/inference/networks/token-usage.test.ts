import assert from "node:assert/strict";
import { test } from "node:test";
import {
  estimateUsage,
  isWithin,
  readUsage,
} from "../../../../plugins/inference/networks/token-usage.ts";

const report = { prompt_tokens: 7, completion_tokens: 11, total_tokens: 18 };
const plain = {
  promptTokens: 7,
  completionTokens: 11,
  cachedTokens: undefined,
  reasoningTokens: undefined,
  estimated: false,
};

test("a worker's report is read with its details", () => {
  const usage = {
    ...report,
    prompt_tokens_details: { cached_tokens: 7, audio_tokens: 1 },
    completion_tokens_details: { reasoning_tokens: 0 },
  };
  assert.deepEqual(readUsage(usage), { ...plain, cachedTokens: 7, reasoningTokens: 0 });
});

test("a wrong or missing total is ignored", () => {
  assert.deepEqual(readUsage({ ...report, total_tokens: 1e300 }), plain);
  assert.deepEqual(readUsage({ prompt_tokens: 7, completion_tokens: 11 }), plain);
});

for (const value of [undefined, null, -1, 0.5, 1e300, 1e9 + 1, NaN, "7", [7], {}, true]) {
  for (const name of ["prompt_tokens", "completion_tokens"]) {
    test(`${name} of ${JSON.stringify(value)} makes the report invalid`, () => {
      assert.equal(readUsage({ ...report, [name]: value }), undefined);
    });
  }
}

for (const value of [undefined, null, 1, "usage", [], true]) {
  test(`${JSON.stringify(value)} is not a report`, () => {
    assert.equal(readUsage(value), undefined);
  });
}

for (const count of [-1, 0.5, 8, 1e300, "3", null, {}]) {
  test(`${JSON.stringify(count)} cached tokens of 7 are ignored, but the rest of the report is used`, () => {
    const usage = { ...report, prompt_tokens_details: { cached_tokens: count } };
    assert.deepEqual(readUsage(usage), plain);
  });
}

for (const details of [null, [], "many", 5]) {
  test(`details that are ${JSON.stringify(details)} are ignored`, () => {
    const usage = { ...report, prompt_tokens_details: details, completion_tokens_details: details };
    assert.deepEqual(readUsage(usage), plain);
  });
}

const limit = { promptTokens: 100, completionTokens: 50 };

test("without a report, tokens are estimated: UTF-8 bytes / 4, rounded up, or the number of chunks if it is higher", () => {
  const counted = { ...plain, estimated: true };
  const count = (chunks: number, bytes: number) => estimateUsage(9, { chunks, bytes }, limit);
  assert.deepEqual(count(5, 8), { ...counted, promptTokens: 3, completionTokens: 5 });
  assert.deepEqual(count(1, 9), { ...counted, promptTokens: 3, completionTokens: 3 });
  assert.deepEqual(count(0, 0), { ...counted, promptTokens: 3, completionTokens: 0 });
});

test("the estimate never exceeds the limit of the request", () => {
  assert.equal(estimateUsage(0, { chunks: 51, bytes: 1e9 }, limit).completionTokens, 50);
});

test("a report is accepted up to both limits", () => {
  const isBelieved = (promptTokens: number, completionTokens: number) =>
    isWithin({ ...plain, promptTokens, completionTokens }, limit);
  assert.ok(isBelieved(100, 50));
  assert.ok(!isBelieved(101, 50));
  assert.ok(!isBelieved(100, 51));
});
