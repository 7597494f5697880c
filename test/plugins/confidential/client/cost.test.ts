/** Tests of the algorithm that computes the cost of a report, and of the parser of prices. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { readPricing } from "../../../../plugins/confidential/client/cost.ts";
import { recomputeCost } from "../../../../plugins/confidential/client/client.ts";

const report = { coefficient: 1500, tokens: { prompt: 9, completion: 5, cached: 4, reasoning: 2 } };
const pricing = {
  network: "confidential-alpha",
  coefficient: 1500,
  pricePerTokenNano: "12.5",
  tokenUsdRate: "0.25",
  asOf: "2026-11-21T12:00:00Z",
};

const classes = { prompt: "12.5", cached: "1", completion: "30", reasoning: "40.5" };

test("a cost is exact and rounded half up once", () => {
  assert.equal(recomputeCost(report, pricing), 66);
  const half = { pricePerTokenNano: "0.5", tokenUsdRate: "1" };
  const tokens = { prompt: 1, completion: 0, cached: 0, reasoning: 0 };
  assert.equal(recomputeCost({ coefficient: 1000, tokens }, half), 1);
  assert.equal(recomputeCost({ coefficient: 999, tokens }, half), 0);
  assert.equal(recomputeCost(report, { ...pricing, tokenUsdRate: undefined }), 0);
});

test("the coefficient is the signed report's, or the gateway's if that is lower", () => {
  assert.equal(recomputeCost({ ...report, coefficient: 1000 }, pricing), 44);
  assert.equal(recomputeCost({ ...report, coefficient: 9000 }, pricing), 66);
  const { coefficient: _, ...without } = pricing;
  assert.equal(recomputeCost({ ...report, coefficient: 3000 }, without), 131);
});

test("a price that is not a decimal throws a RangeError", () => {
  for (const decimal of ["", "1e3", "-1", "NaN", "1,5"]) {
    assert.throws(
      () => recomputeCost(report, { ...pricing, pricePerTokenNano: decimal }),
      RangeError,
    );
    assert.throws(() => recomputeCost(report, { ...pricing, tokenUsdRate: decimal }), RangeError);
    const wrong = { ...classes, cached: decimal };
    assert.throws(() => recomputeCost(report, { ...pricing, classes: wrong }), RangeError);
    assert.equal(readPricing({ ...pricing, pricePerTokenNano: decimal }), undefined);
    assert.equal(readPricing({ ...pricing, tokenUsdRate: decimal }), undefined);
  }
});

test("a pricing with a missing or invalid member is ignored", () => {
  assert.deepEqual(readPricing(pricing), pricing);
  assert.deepEqual(readPricing({ ...pricing, tokenUsdRate: null }), {
    ...pricing,
    tokenUsdRate: undefined,
  });
  for (const member of ["network", "coefficient", "pricePerTokenNano", "asOf"]) {
    assert.equal(readPricing({ ...pricing, [member]: undefined }), undefined);
    assert.equal(readPricing({ ...pricing, [member]: {} }), undefined);
  }
  assert.equal(readPricing(null), undefined);
});

test("the classes of a pricing are read, and one that is missing or invalid makes it unreadable", () => {
  const whole = { ...pricing, pricePerTokenNano: "40.5", classes };
  assert.deepEqual(readPricing({ ...whole, classes: { ...classes, more: 1 } }), whole);
  for (const member of Object.keys(classes)) {
    for (const value of [undefined, null, 1, "-1", "x"]) {
      assert.equal(readPricing({ ...whole, classes: { ...classes, [member]: value } }), undefined);
    }
  }
  assert.equal(readPricing({ ...whole, classes: null }), undefined);
});
