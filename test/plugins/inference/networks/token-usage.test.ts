/** Tests of the parser of the token counts of workers. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  believedUsage,
  estimateUsage,
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

test("counts must be whole numbers up to a billion; other members may have any shape", () => {
  const odd = [undefined, null, -1, 0.5, 1e300, 1e9 + 1, NaN, "7", [7], {}, true];
  for (const value of odd) {
    for (const name of ["prompt_tokens", "completion_tokens"]) {
      assert.equal(
        readUsage({ ...report, [name]: value }),
        undefined,
        `${name} ${JSON.stringify(value)}`,
      );
    }
    assert.equal(readUsage(value), undefined);
    for (const details of [value, { cached_tokens: value, reasoning_tokens: value }]) {
      const usage = { ...report, total_tokens: value };
      const parts = { prompt_tokens_details: details, completion_tokens_details: details };
      assert.deepEqual(readUsage({ ...usage, ...parts }), plain);
    }
  }
});

const nothing = { chunks: 0, bytes: 0, reasoningChunks: 0, reasoningBytes: 0 };
const limit = { promptTokens: 100, completionTokens: 50 };

test("without a report, tokens are estimated: UTF-8 bytes / 4, rounded up, or the number of chunks if it is higher", () => {
  const counted = { ...plain, estimated: true };
  const count = (chunks: number, bytes: number) =>
    estimateUsage(9, { ...nothing, chunks, bytes }, limit, false);
  assert.deepEqual(count(5, 8), { ...counted, promptTokens: 3, completionTokens: 5 });
  assert.deepEqual(count(1, 9), { ...counted, promptTokens: 3, completionTokens: 3 });
  assert.deepEqual(count(0, 0), { ...counted, promptTokens: 3, completionTokens: 0 });
});

test("the estimate never exceeds the limit of the request", () => {
  const much = { chunks: 51, bytes: 1e9, reasoningChunks: 51, reasoningBytes: 1e8 };
  const { completionTokens, reasoningTokens } = estimateUsage(0, much, limit, true);
  assert.deepEqual([completionTokens, reasoningTokens], [50, 50]);
});

test("reasoning is estimated in the same way if its price can differ", () => {
  const count = (reasoningChunks: number, reasoningBytes: number, hasClasses = true) => {
    const produced = { chunks: 9, bytes: 40, reasoningChunks, reasoningBytes };
    return estimateUsage(9, produced, limit, hasClasses).reasoningTokens;
  };
  assert.deepEqual(
    [count(3, 5), count(1, 5), count(0, 0), count(3, 5, false)],
    [3, 2, 0, undefined],
  );
});

test("a report is accepted up to both limits", () => {
  const isBelieved = (promptTokens: number, completionTokens: number) =>
    believedUsage({ ...plain, promptTokens, completionTokens }, limit, true) !== undefined;
  assert.ok(isBelieved(100, 50));
  assert.ok(!isBelieved(101, 50));
  assert.ok(!isBelieved(100, 51));
});

test("a report with parts larger than their whole is rejected only if classes of tokens have prices", () => {
  for (const [parts, kept] of [
    [{ cachedTokens: 8, reasoningTokens: 11 }, { reasoningTokens: 11 }],
    [{ cachedTokens: 7, reasoningTokens: 12 }, { cachedTokens: 7 }],
  ]) {
    const reported = { ...plain, ...parts };
    assert.equal(believedUsage(reported, limit, true), undefined);
    assert.deepEqual(believedUsage(reported, limit, false), { ...plain, ...kept });
  }
  const whole = { ...plain, cachedTokens: 7, reasoningTokens: 11 };
  assert.deepEqual(believedUsage(whole, limit, true), whole);
});
