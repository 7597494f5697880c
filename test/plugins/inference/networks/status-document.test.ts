/** Tests of the parser of status documents. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { readModels, readStatus } from "../../../../plugins/inference/networks/status-document.ts";

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
