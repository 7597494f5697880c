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

for (const [name, price, want] of [
  ["as a number", 0.5, "0.5"],
  ["as a very small number", 1e-9, "0.000000001"],
  ["null", null, undefined],
  ["absent", undefined, undefined],
  ["zero", "0", "0"],
] as const) {
  test(`a price ${name} is ${want ?? "undefined"}`, () => {
    const status = readStatus({ price_per_token_nano: price, workers: [] });
    const prices = want === undefined ? undefined : { pricePerTokenNano: want };
    assert.deepEqual(status, { prices, workers: [] });
  });
}

for (const [name, price, highest, classes] of [
  [
    "all classes",
    { prompt: "12", cached: 3, completion: "36.5", reasoning: "40" },
    "40",
    { prompt: "12", cached: "3", completion: "36.5", reasoning: "40" },
  ],
  [
    "two classes",
    { prompt: "12", completion: 0.5 },
    "12",
    { prompt: "12", cached: "12", completion: "0.5", reasoning: "0.5" },
  ],
  [
    "null for the others",
    { prompt: "2", completion: "10", cached: null, reasoning: null },
    "10",
    { prompt: "2", cached: "2", completion: "10", reasoning: "10" },
  ],
  [
    "cached tokens that cost most",
    { prompt: "0", cached: "0.10", completion: "0.09", reasoning: "0.1" },
    "0.10",
    { prompt: "0", cached: "0.10", completion: "0.09", reasoning: "0.1" },
  ],
] as const) {
  test(`a status can price ${name}`, () => {
    assert.deepEqual(readStatus({ price_per_token_nano: price, workers: [] })?.prices, {
      pricePerTokenNano: highest,
      classes,
    });
  });
}

const wrongPrices = [
  "-1",
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

for (const document of [
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
]) {
  test(`${JSON.stringify(document)} is not a status`, () => {
    assert.equal(readStatus(document), undefined);
  });
}

for (const [name, change] of [
  ["no id", { id: undefined }],
  ["a numeric id", { id: 1 }],
  ["an empty id", { id: "" }],
  ["an endless id", { id: "x".repeat(257) }],
  ["no model", { model: undefined }],
  ["an empty model", { model: "" }],
  ["an endless model", { model: "x".repeat(257) }],
  ["an unknown state", { state: "gone" }],
  ["a state that is null", { state: null }],
  ["a fractional coefficient", { coefficient: 0.5 }],
  ["a negative coefficient", { coefficient: -1 }],
  ["a coefficient as text", { coefficient: "1000" }],
  ["an absurd coefficient", { coefficient: 1e300 }],
  ["a coefficient above a thousand times the price", { coefficient: 1_000_001 }],
  ["a url without a scheme", { url: "w1:8000" }],
  ["a url of another scheme", { url: "file:///etc/passwd" }],
  ["an empty url", { url: "" }],
  ["a url that is no text", { url: 8000 }],
] as const) {
  test(`only the worker with ${name} is skipped`, () => {
    const status = readStatus({ workers: [{ ...worker, ...change }, other] });
    assert.deepEqual(status?.workers, [listedOther]);
  });
}

for (const junk of [null, 1, "w1", true, []]) {
  test(`only ${JSON.stringify(junk)} among the workers is skipped`, () => {
    assert.deepEqual(readStatus({ workers: [junk, other] })?.workers, [listedOther]);
  });
}

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

for (const document of [undefined, null, [], {}, { data: null }, { data: {} }, { models: [] }]) {
  test(`${JSON.stringify(document)} is not a list of models`, () => {
    assert.equal(readModels(document), undefined);
  });
}
