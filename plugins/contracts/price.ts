/**
 * The cost of tokens: tokens × price × coefficient / 1000 × rate (decisions.md section 3). The price is in billionths
 * of the native token, and the rate is the price of one native token in USD. Their product is in nano-USD, and one
 * nano-USD is one milli-CU.
 */
import { parseDecimal, productHalfUp, type Decimal } from "./decimal.ts";
import type { Price, Pricing } from "./pricing.ts";

const zero: Decimal = { digits: 0n, places: 0 };

/**
 * Returns the price for these values. The decimals in `pricing` were checked when they were read; a decimal that is
 * not valid counts as 0.
 */
export function createPrice(pricing: Pricing): Price {
  const price = parseDecimal(pricing.pricePerTokenNano) ?? zero;
  const rate =
    pricing.tokenUsdRate === undefined ? zero : (parseDecimal(pricing.tokenUsdRate) ?? zero);
  const coefficient: Decimal = { digits: BigInt(pricing.coefficient), places: 3 };
  return {
    pricing,
    costMilliCu: (tokens) =>
      boundedMilliCu(productHalfUp(BigInt(tokens), price, coefficient, rate)),
  };
}

/**
 * Returns the same price and rate with another coefficient. Values that are read later do not change a price that was
 * already offered.
 */
export function atCoefficient({ pricing }: Pick<Price, "pricing">, coefficient: number): Price {
  return createPrice({ ...pricing, coefficient });
}

/**
 * Limits a cost to the safe integers, in which credit is counted. Nine million USD for one answer is an error anyway.
 */
function boundedMilliCu(cost: bigint): number {
  return cost > BigInt(Number.MAX_SAFE_INTEGER) ? Number.MAX_SAFE_INTEGER : Number(cost);
}
