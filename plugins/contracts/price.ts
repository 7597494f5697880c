/**
 * The cost of tokens: Σ tokens × price × coefficient / 1000 × rate over the classes of tokens (decisions.md section 15).
 * Prices are in billionths of the native token, and the rate is the price of one native token in USD. Their product is
 * in nano-USD, and one nano-USD is one milli-CU.
 */
import { isObject } from "sluice-gateway/internal/toolkit";
import { decimalText, parseDecimal, productHalfUp, type Decimal } from "./values.ts";
import type { ClassPrices, Price, Pricing, TokenPrices } from "./pricing.ts";

const zero: Decimal = { digits: 0n, places: 0 };

/** The decimals in `pricing` were checked when they were read; one that is not valid counts as 0. */
export function createPrice(pricing: Pricing): Price {
  const { pricePerTokenNano: one, classes = allAt(one) } = pricing;
  const { places, digits } = aligned(classes);
  const [prompt, cached, completion, reasoning] = digits as [bigint, bigint, bigint, bigint];
  const nano: Decimal = { digits: 1n, places };
  const coefficient: Decimal = { digits: BigInt(pricing.coefficient), places: 3 };
  const rate = decimalOf(pricing.tokenUsdRate ?? "0");
  const rounded = (sum: bigint): number =>
    boundedMilliCu(productHalfUp(sum, nano, coefficient, rate));
  return {
    pricing,
    costMilliCu({ promptTokens, completionTokens, cachedTokens, reasoningTokens }) {
      const inCache = partOf(promptTokens, cachedTokens);
      const thought = partOf(completionTokens, reasoningTokens);
      return rounded(
        (BigInt(promptTokens) - inCache) * prompt +
          inCache * cached +
          (BigInt(completionTokens) - thought) * completion +
          thought * reasoning,
      );
    },
    maxMilliCu: (promptTokens, completionTokens) =>
      rounded(
        BigInt(promptTokens) * higher(prompt, cached) +
          BigInt(completionTokens) * higher(completion, reasoning),
      ),
  };
}

/** Values that are read later do not change a price that was already offered. */
export function atCoefficient({ pricing }: Pick<Price, "pricing">, coefficient: number): Price {
  return createPrice({ ...pricing, coefficient });
}

/**
 * Reads `price_per_token_nano`: a decimal, or `{ prompt, cached, completion, reasoning }`. Without `cached`, cached
 * tokens cost the price of the prompt, and without `reasoning`, reasoning tokens that of the completion. Undefined if
 * the value is not valid.
 */
export function readTokenPrices(value: unknown): TokenPrices | undefined {
  if (!isObject(value)) {
    const one = decimalText(value);
    return one === undefined ? undefined : { pricePerTokenNano: one };
  }
  const prompt = decimalText(value["prompt"]);
  const completion = decimalText(value["completion"]);
  const cached = decimalText(value["cached"] ?? prompt);
  const reasoning = decimalText(value["reasoning"] ?? completion);
  if (prompt === undefined || completion === undefined) return undefined;
  if (cached === undefined || reasoning === undefined) return undefined;
  const classes = { prompt, cached, completion, reasoning };
  const { digits } = aligned(classes);
  const highest = textsOf(classes)[digits.indexOf(digits.reduce(higher))] ?? prompt;
  return { pricePerTokenNano: highest, classes };
}

function allAt(price: string): ClassPrices {
  return { prompt: price, cached: price, completion: price, reasoning: price };
}

function textsOf({ prompt, cached, completion, reasoning }: ClassPrices): readonly string[] {
  return [prompt, cached, completion, reasoning];
}

function decimalOf(text: string): Decimal {
  return parseDecimal(text) ?? zero;
}

function aligned(classes: ClassPrices): {
  readonly digits: readonly bigint[];
  readonly places: number;
} {
  const decimals = textsOf(classes).map(decimalOf);
  const places = Math.max(...decimals.map((decimal) => decimal.places));
  const digits = decimals.map((one) => one.digits * 10n ** BigInt(places - one.places));
  return { digits, places };
}

/** A part that is larger than its whole is not believed. */
function partOf(whole: number, part = 0): bigint {
  return part <= whole ? BigInt(part) : 0n;
}

function higher(one: bigint, other: bigint): bigint {
  return one > other ? one : other;
}

/** Limits a cost to safe integers, in which credit is counted. Nine million USD for one answer is an error anyway. */
function boundedMilliCu(cost: bigint): number {
  return cost > BigInt(Number.MAX_SAFE_INTEGER) ? Number.MAX_SAFE_INTEGER : Number(cost);
}
