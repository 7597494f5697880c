/**
 * What tokens cost: tokens × price × coefficient / 1000 × rate (decisions.md section 3). The price is in nano native
 * tokens, the rate in USD of one native token: nano times USD is nano-USD, which is the milli-CU.
 */
import type { Pricing } from "./services/networks.ts";
import { parseDecimal, productHalfUp, type Decimal } from "./decimal.ts";

/** A price as it was read at one moment. */
export interface Price {
  readonly pricing: Pricing;
  /** Milli-CU of so many tokens; 0 where price or rate is missing. */
  costMilli(tokens: number): number;
}

const zero: Decimal = { digits: 0n, places: 0 };

/** `pricing`'s decimals have been checked when they were read; one that is none costs nothing. */
export function createPrice(pricing: Pricing): Price {
  const price = parseDecimal(pricing.pricePerTokenNano) ?? zero;
  const rate =
    pricing.tokenUsdRate === undefined ? zero : (parseDecimal(pricing.tokenUsdRate) ?? zero);
  const coefficient: Decimal = { digits: BigInt(pricing.coefficient), places: 3 };
  return {
    pricing,
    costMilli: (tokens) => boundedMilli(productHalfUp(BigInt(tokens), price, coefficient, rate)),
  };
}

/** The same price and rate at another coefficient: what was read since does not change what was offered. */
export function atCoefficient({ pricing }: Pick<Price, "pricing">, coefficient: number): Price {
  return createPrice({ ...pricing, coefficient });
}

/** Credit is counted in safe integers: nine million USD for one answer is no price that anybody meant. */
function boundedMilli(cost: bigint): number {
  return cost > BigInt(Number.MAX_SAFE_INTEGER) ? Number.MAX_SAFE_INTEGER : Number(cost);
}
