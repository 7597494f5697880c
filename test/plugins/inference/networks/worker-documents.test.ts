/** Tests of the parsers of what workers send beside answers: status documents, refusals and token counts. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { readModels, readStatus } from "../../../../plugins/inference/networks/status-document.ts";
import {
  readRefusal,
  retryAfterSeconds,
} from "../../../../plugins/inference/networks/refusal-body.ts";
import {
  believedUsage,
  estimateUsage,
  readUsage,
} from "../../../../plugins/inference/networks/token-usage.ts";

const worker = { id: "w1", model: "A/B-1", coefficient: 1250, state: "busy", url: "http://w1/v1" };
const other = { id: "w2", model: "A/B-2" };
const listedOther = { ...other, coefficient: 1000, state: "active", url: undefined };

test("a status contains the price and the workers", () => {
  assert.deepEqual(readStatus({ price_per_token_nano: "12", workers: [worker, other], more: 1 }), {
    prices: { pricePerTokenNano: "12" },
    workers: [worker, listedOther],
  });
});

test("a price may be a number, 0, null or missing", () => {
  for (const [price, want] of [
    [0.5, "0.5"],
    [1e-9, "0.000000001"],
    [null, undefined],
    [undefined, undefined],
    ["0", "0"],
  ] as const) {
    const status = readStatus({ price_per_token_nano: price, workers: [] });
    const prices = want === undefined ? undefined : { pricePerTokenNano: want };
    assert.deepEqual(status, { prices, workers: [] });
  }
});

test("a status can price classes of tokens, and the price of all tokens is the highest", () => {
  for (const [price, highest, classes] of [
    [{ prompt: "12", cached: 3, completion: "36.5", reasoning: "40" }, "40", "12 3 36.5 40"],
    [{ prompt: "12", completion: 0.5 }, "12", "12 12 0.5 0.5"],
    [{ prompt: "2", completion: "10", cached: null, reasoning: null }, "10", "2 2 10 10"],
    [
      { prompt: "0", cached: "0.10", completion: "0.09", reasoning: "0.1" },
      "0.10",
      "0 0.10 0.09 0.1",
    ],
  ] as const) {
    const { prices } = readStatus({ price_per_token_nano: price, workers: [] }) ?? {};
    assert.equal(prices?.pricePerTokenNano, highest);
    const { prompt, cached, completion, reasoning } = prices?.classes ?? {};
    assert.equal([prompt, cached, completion, reasoning].join(" "), classes);
  }
});

const wrongPrices = [
  "-1",
  "100000000000",
  "1e3",
  "",
  "twelve",
  -1,
  1e300,
  true,
  [],
  {},
  { prompt: "1" },
  { completion: "1", cached: "1", reasoning: "1" },
  { prompt: "1", completion: "-1" },
  { prompt: "1", completion: "1", cached: "x" },
  { prompt: "1", completion: "1", reasoning: {} },
  { prompt: "1", completion: "1", reasoning: "1000000001" },
];

const noStatus = [
  undefined,
  null,
  true,
  1,
  "workers",
  [],
  [worker],
  {},
  { workers: null },
  { workers: {} },
  { workers: "w1" },
  ...wrongPrices.map((price) => ({ price_per_token_nano: price, workers: [worker] })),
];

test("a document without workers, or with a price that is not one, is not a status", () => {
  for (const document of noStatus) {
    assert.equal(readStatus(document), undefined, JSON.stringify(document));
  }
});

const wrongWorkers = [
  { id: undefined },
  { id: 1 },
  { id: "" },
  { id: "x".repeat(257) },
  { model: undefined },
  { model: "" },
  { model: "x".repeat(257) },
  { state: "gone" },
  { state: null },
  { coefficient: 0.5 },
  { coefficient: -1 },
  { coefficient: "1000" },
  { coefficient: 1e300 },
  { coefficient: 1_000_001 },
  { url: "w1:8000" },
  { url: "file:///etc/passwd" },
  { url: "" },
  { url: 8000 },
];

test("a worker that is not valid is skipped alone", () => {
  for (const change of wrongWorkers) {
    const status = readStatus({ workers: [{ ...worker, ...change }, other] });
    assert.deepEqual(status?.workers, [listedOther], JSON.stringify(change));
  }
  for (const junk of [null, 1, "w1", true, []]) {
    assert.deepEqual(readStatus({ workers: [junk, other] })?.workers, [listedOther]);
  }
});

test("the last entry of a worker that is listed twice is used", () => {
  const status = readStatus({ workers: [worker, { ...worker, state: "draining" }] });
  assert.deepEqual(status?.workers, [{ ...worker, state: "draining" }]);
});

test("the URL of the network is used if url is null or missing", () => {
  assert.deepEqual(readStatus({ workers: [{ ...other, url: null }] })?.workers, [listedOther]);
});

test("no more than ten thousand workers are read", () => {
  const workers = Array.from({ length: 10_001 }, (_, n) => ({ id: `w${n}`, model: "m" }));
  assert.equal(readStatus({ workers })?.workers.length, 10_000);
});

test("each model that a server lists counts as a worker", () => {
  const one = { id: "A/B-1", model: "A/B-1", coefficient: 1000, state: "active", url: undefined };
  const data = [{ id: "A/B-1", object: "model" }, { id: "A/B-1" }, { id: 1 }, {}, null, "x"];
  assert.deepEqual(readModels({ object: "list", data }), {
    prices: undefined,
    workers: [one],
  });
});

test("any other document is not a list of models", () => {
  for (const document of [undefined, null, [], {}, { data: null }, { data: {} }, { models: [] }]) {
    assert.equal(readModels(document), undefined, JSON.stringify(document));
  }
});

function read(document: unknown): ReturnType<typeof readRefusal> {
  return readRefusal(Buffer.from(JSON.stringify(document)), undefined);
}

/** Forms of the error by which servers say that the context of 4,096 tokens is too short for 5,000. */
const exceeded: Readonly<
  Record<string, readonly [text: string, maxTokens?: number, prompt?: number]>
> = {
  OpenAI: [
    `{"error":{"message":"This model's maximum context length is 4096 tokens. However, your messages resulted in 5000 tokens.","type":"invalid_request_error","code":"context_length_exceeded"}}`,
  ],
  vLLM: [
    `{"object":"error","message":"This model's maximum context length is 4096 tokens. However, you requested 5000 tokens (4900 in the messages, 100 in the completion).","type":"BadRequestError","code":400}`,
    100,
  ],
  "vLLM, which names only the prompt": [
    `{"error":{"message":"'max_tokens' is too large: 1000. This model's maximum context length is 4096 tokens and your request has 4000 input tokens (1000 > 4096 - 4000)."}}`,
    1000,
    4000,
  ],
  "vLLM, for an answer that is longer than the context": [
    `{"error":{"message":"'max_tokens' is too large: 4980. This model's maximum context length is 4096 tokens and your request has 20 input tokens (4980 > 4096 - 20)."}}`,
    4980,
    20,
  ],
  "vLLM, with a prompt that fits": [
    `{"object":"error","message":"Error code: 400. This model's maximum context length is 4096 tokens. However, you requested 5000 tokens (1200 in the messages, 3800 in the completion).","code":400}`,
    3800,
    1200,
  ],
  "llama.cpp": [
    `{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error","n_prompt_tokens":5000,"n_ctx":4096}}`,
  ],
  SGLang: [
    `{"message":"The input (5000 tokens) is longer than the model's context length (4096 tokens)."}`,
  ],
  TGI: [
    `{"error":"Input validation error: \`inputs\` tokens + \`max_new_tokens\` must be <= 4096. Given: 4000 \`inputs\` tokens and 1000 \`max_new_tokens\`","error_type":"validation"}`,
    1000,
    4000,
  ],
};

test("a prompt that is too long is recognized with both numbers, whatever server refuses it", () => {
  for (const [server, [text, maxTokens, prompt]] of Object.entries(exceeded)) {
    const { contextExceeded } = readRefusal(Buffer.from(text), maxTokens);
    const fits = prompt === undefined ? {} : { prompt };
    assert.deepEqual(contextExceeded, { limit: 4096, requested: 5000, ...fits }, server);
  }
});

test("numbers that contradict each other are not shown", () => {
  const error = { code: "context_length_exceeded", message: "context length 4096, you have 12" };
  assert.deepEqual(read({ error }).contextExceeded, { limit: 4096, requested: undefined });
  const silent = { error: { code: "context_length_exceeded" } };
  assert.deepEqual(read(silent).contextExceeded, { limit: undefined, requested: undefined });
});

test("type and code are kept only in the form of identifiers", () => {
  assert.deepEqual(read({ error: { type: "auth_error", code: "invalid_api_key" } }), {
    type: "auth_error",
    code: "invalid_api_key",
    contextExceeded: undefined,
  });
  const text = { error: { type: "two words", code: "x".repeat(65), message: "unknown model" } };
  assert.deepEqual(read(text), { type: undefined, code: undefined, contextExceeded: undefined });
});

test("a body that is not an object of JSON says nothing", () => {
  for (const body of [
    "",
    "<html>",
    "[]",
    "5",
    "null",
    '{"error":null}',
    '{"error":{"message":5}}',
  ]) {
    const { type, code, contextExceeded } = readRefusal(Buffer.from(body), undefined);
    assert.deepEqual([type, code, contextExceeded], [undefined, undefined, undefined]);
  }
});

test("only whole seconds are taken from Retry-After, from 1 to 300", () => {
  assert.deepEqual(["7", "0", "301"].map(retryAfterSeconds), [7, 1, 300]);
  for (const odd of ["1e9", "-1", "", "Fri, 31 Dec 1999 23:59:59 GMT", undefined]) {
    assert.equal(retryAfterSeconds(odd), undefined, String(odd));
  }
});

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
