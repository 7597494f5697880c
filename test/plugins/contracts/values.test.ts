import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { createPrice, readTokenPrices } from "sluice-gateway/services";
import {
  decimalText,
  parseDecimal,
  parseTime,
  productHalfUp,
} from "../../../plugins/contracts/values.ts";

for (const [text, digits, places] of [
  ["0", 0n, 0],
  ["12", 12n, 0],
  ["0012.50", 1250n, 2],
  ["0.000000000000000000000000000001", 1n, 30],
  ["999999999999999999", 999_999_999_999_999_999n, 0],
] as const) {
  test(`${text} is a decimal`, () => {
    assert.deepEqual(parseDecimal(text), { digits, places });
    assert.equal(decimalText(text), text);
  });
}

const wrong = "| |.|1.|.5|-1|-0|+1|1e3|1E-3|0x10|1_000|1,5|1.2.3| 1|1 |1\n|١|NaN|Infinity".split(
  "|",
);
for (const text of [...wrong, "1".repeat(19), `0.${"1".repeat(31)}`]) {
  test(`${JSON.stringify(text)} is not a decimal`, () => {
    assert.equal(parseDecimal(text), undefined);
    assert.equal(decimalText(text), undefined);
  });
}

for (const [json, text] of [
  ["12", "12"],
  ["0", "0"],
  ["-0", "0"],
  ["0.25", "0.25"],
  ["1e3", "1000"],
  ["1.5e-7", "0.00000015"],
  ["2e-30", "0.000000000000000000000000000002"],
  ["2e-31", undefined],
  ["5e-324", undefined],
  ["1e17", "100000000000000000"],
  ["1e18", undefined],
  ["1e21", undefined],
  ["1e300", undefined],
  ["-0.5", undefined],
  ["-1e-9", undefined],
  ["null", undefined],
  ["true", undefined],
  ["[1]", undefined],
  ['{"0":"1"}', undefined],
] as const) {
  test(`the JSON value ${json} is ${text ?? "not a decimal"}`, () => {
    assert.equal(decimalText(JSON.parse(json)), text);
  });
}

interface Rational {
  readonly text: string;
  readonly over: bigint;
  readonly under: bigint;
}

const rationals = fc
  .tuple(fc.bigInt(0n, 10n ** 18n - 1n), fc.stringMatching(/^\d{0,30}$/))
  .map(([whole, fraction]): Rational => {
    const text = fraction === "" ? `${whole}` : `${whole}.${fraction}`;
    const under = 10n ** BigInt(fraction.length);
    return { text, over: whole * under + BigInt(`0${fraction}`), under };
  });

/** Returns the integer that is nearest to a fraction. Halves are rounded up. */
function nearest(over: bigint, under: bigint): bigint {
  const below = over / under;
  return (over - below * under) * 2n >= under ? below + 1n : below;
}

test("a product is the exact product rounded half up, for any factors", () => {
  fc.assert(
    fc.property(
      fc.bigInt(0n, 10n ** 9n),
      fc.array(rationals, { maxLength: 4 }),
      (count, factors) => {
        const over = factors.reduce((product, factor) => product * factor.over, count);
        const under = factors.reduce((product, factor) => product * factor.under, 1n);
        const decimals = factors.map(({ text }) => {
          const decimal = parseDecimal(text);
          assert.ok(decimal);
          return decimal;
        });
        assert.equal(productHalfUp(count, ...decimals), nearest(over, under));
      },
    ),
  );
});

function costOf(
  tokens: number,
  price: string,
  rate: string | undefined,
  coefficient = 1000,
): number {
  const pricing = { network: "n", asOf: "2026-01-01T00:00:00.000Z" };
  const parts = { ...pricing, coefficient, pricePerTokenNano: price, tokenUsdRate: rate };
  const half = Math.floor(tokens / 2);
  const counts = { promptTokens: half, completionTokens: tokens - half, cachedTokens: half >> 1 };
  return createPrice(parts).costMilliCu(counts);
}

test("a cost is the exact product rounded half up once, for any price, coefficient and rate", () => {
  fc.assert(
    fc.property(
      fc.nat(2_000_000_000),
      rationals,
      fc.nat(1_000_000),
      rationals,
      (tokens, price, coefficient, rate) => {
        const over = BigInt(tokens) * price.over * BigInt(coefficient) * rate.over;
        const exact = nearest(over, price.under * 1000n * rate.under);
        const most = BigInt(Number.MAX_SAFE_INTEGER);
        const want = Number(exact > most ? most : exact);
        assert.equal(costOf(tokens, price.text, rate.text, coefficient), want);
      },
    ),
  );
});

test("halves are rounded up, less is rounded down, and only the sum is rounded", () => {
  assert.equal(costOf(1, "0.5", "1"), 1);
  assert.equal(costOf(1, "0.4999999999999999999999999999", "1"), 0);
  // Two tokens at 0.4 cost 0.8, which is rounded to 1; rounding each would give 0.
  assert.equal(costOf(2, "0.4", "1"), 1);
  // In doubles 1.005 × 1000 × 0.5 is 502.49999999999994.
  assert.equal(costOf(1000, "1.005", "0.5"), 503);
  assert.equal(costOf(3, "12", "0.25", 1500), 14);
});

test("a missing or invalid price or rate costs nothing", () => {
  assert.equal(costOf(1000, "12", undefined), 0);
  assert.equal(costOf(1000, "0", "0.25"), 0);
  assert.equal(costOf(1000, "12", "0"), 0);
  assert.equal(costOf(1000, "-12", "0.25"), 0);
  assert.equal(costOf(1000, "12", "1e9"), 0);
  assert.equal(costOf(0, "12", "0.25"), 0);
});

/** A number of tokens and a part of it, which may be larger than its whole. */
const wholeAndPart = fc.tuple(fc.nat(1_000_000), fc.option(fc.nat(1_000_001), { nil: undefined }));

test("a cost by classes is the exact sum of the products, rounded once, and at most the maximum", () => {
  fc.assert(
    fc.property(
      fc.tuple(rationals, rationals, rationals, rationals),
      rationals,
      fc.nat(1_000_000),
      wholeAndPart,
      wholeAndPart,
      (prices, rate, coefficient, [promptTokens, cached], [completionTokens, reasoning]) => {
        const inCache = cached !== undefined && cached <= promptTokens ? cached : 0;
        const thought = reasoning !== undefined && reasoning <= completionTokens ? reasoning : 0;
        const counts = [promptTokens - inCache, inCache, completionTokens - thought, thought];
        const under = prices.reduce((product, price) => product * price.under, 1n);
        const over = prices
          .map((price, at) => (BigInt(counts[at] ?? 0) * price.over * under) / price.under)
          .reduce((sum, product) => sum + product, 0n);
        const exact = nearest(over * BigInt(coefficient) * rate.over, under * 1000n * rate.under);
        const most = BigInt(Number.MAX_SAFE_INTEGER);
        const [prompt, cachedPrice, completion, reasoningPrice] = prices.map(({ text }) => text);
        const read = readTokenPrices({
          prompt,
          cached: cachedPrice,
          completion,
          reasoning: reasoningPrice,
        });
        assert.ok(read);
        const about = { network: "n", asOf: "", coefficient, tokenUsdRate: rate.text };
        const price = createPrice({ ...about, ...read });
        const tokens = {
          promptTokens,
          completionTokens,
          cachedTokens: cached,
          reasoningTokens: reasoning,
        };
        assert.equal(price.costMilliCu(tokens), Number(exact > most ? most : exact));
        const reserved = price.maxMilliCu(promptTokens, completionTokens);
        assert.ok(price.costMilliCu(tokens) <= reserved);
        // The price that earlier clients read is the highest.
        const { pricePerTokenNano } = read;
        const single = createPrice({ ...about, pricePerTokenNano });
        assert.ok(reserved <= single.costMilliCu({ promptTokens, completionTokens }));
      },
    ),
  );
});

test("the reservation takes the dearer price of the prompt and the dearer price of the completion", () => {
  const about = { network: "n", asOf: "", coefficient: 1000, tokenUsdRate: "1" };
  const maxOf = (prompt: string, cached: string, completion: string, reasoning: string) => {
    const classes = { prompt, cached, completion, reasoning };
    return createPrice({ ...about, pricePerTokenNano: "9", classes }).maxMilliCu(100, 10);
  };
  assert.equal(maxOf("3", "1", "5", "7"), 370);
  assert.equal(maxOf("1", "3", "7", "5"), 370);
});

test("times of RFC 3339 and dates are milliseconds since 1970", () => {
  const noon = Date.UTC(2026, 0, 31, 12);
  for (const text of [
    "2026-01-31T12:00:00Z",
    "2026-01-31t12:00:00.000z",
    "2026-01-31T13:30:00+01:30",
    "2026-01-31T12:00:00-00:00",
  ]) {
    assert.equal(parseTime(text), noon, text);
  }
  assert.equal(parseTime("2026-01-31"), Date.UTC(2026, 0, 31));
  assert.equal(parseTime("2024-02-29"), Date.UTC(2024, 1, 29));
});

test("text that is not a time, or not a valid date, is undefined", () => {
  for (const text of [
    "",
    "2026",
    "2026-1-1",
    "2026-02-29",
    "2026-13-01",
    "2026-04-31T00:00:00Z",
    "2026-01-01T24:00:00Z",
    "2026-01-01T00:00:00",
    "2026-01-01 00:00:00Z",
    "1767225600000",
    "now",
  ]) {
    assert.equal(parseTime(text), undefined, text);
  }
});

test("every instant of four-digit years is read back from its own text", () => {
  const instants = fc.date({
    min: new Date("0001-01-01"),
    max: new Date("9999-12-31T23:59:59.999Z"),
    noInvalidDate: true,
  });
  fc.assert(
    fc.property(instants, (date) => assert.equal(parseTime(date.toISOString()), date.getTime())),
  );
});
