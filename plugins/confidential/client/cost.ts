/** What a report costs, reckoned again by whoever has it: gateway, client and auditor come to the same integer. */
import type { UsageReport } from "../protocol/report.ts";
import { isCount, isJsonObject } from "../protocol/strict-json.ts";
import { parseDecimal } from "../../../src/decimal.ts";
import { createPrice } from "../../../src/price.ts";

/** Of a `done` frame: what the charge was reckoned with. The decimals are exact. */
export interface StreamPricing {
  readonly network: string;
  /** 1000 is a factor of 1. */
  readonly coefficient: number;
  readonly pricePerTokenNano: string;
  /** USD of one native token; undefined: not known, and the charge is 0. */
  readonly tokenUsdRate: string | undefined;
  /** RFC 3339: when the price was read. */
  readonly asOf: string;
}

/**
 * Milli-CU: total tokens × pricePerTokenNano × coefficient / 1000 × tokenUsdRate, exact, rounded half up once. The
 * coefficient is the report's, which the enclave signed, or the gateway's where that is lower: an enclave that reports
 * more than was offered is not paid more. Throws RangeError for a price or rate that is no decimal.
 */
export function recomputeCost(
  report: Pick<UsageReport, "coefficient" | "tokens">,
  pricing: Pick<StreamPricing, "pricePerTokenNano" | "tokenUsdRate"> &
    Partial<Pick<StreamPricing, "coefficient">>,
): number {
  const { pricePerTokenNano, tokenUsdRate } = pricing;
  const { tokens } = report;
  const coefficient = Math.min(report.coefficient, pricing.coefficient ?? Infinity);
  for (const decimal of [pricePerTokenNano, tokenUsdRate ?? "0"]) {
    if (parseDecimal(decimal) === undefined) throw new RangeError(`"${decimal}" is no decimal`);
  }
  const price = createPrice({
    network: "",
    asOf: "",
    coefficient,
    pricePerTokenNano,
    tokenUsdRate,
  });
  return price.costMilli(tokens.prompt + tokens.completion);
}

/** Undefined for anything that cannot be reckoned with. `value`: parsed JSON. */
export function readPricing(value: unknown): StreamPricing | undefined {
  if (!isJsonObject(value)) return undefined;
  const { network, coefficient, pricePerTokenNano, tokenUsdRate, asOf } = value;
  if (typeof network !== "string" || typeof asOf !== "string") return undefined;
  if (!isCount(coefficient) || !isDecimal(pricePerTokenNano)) return undefined;
  if (tokenUsdRate !== undefined && tokenUsdRate !== null && !isDecimal(tokenUsdRate)) {
    return undefined;
  }
  return { network, coefficient, pricePerTokenNano, tokenUsdRate: tokenUsdRate ?? undefined, asOf };
}

function isDecimal(value: unknown): value is string {
  return typeof value === "string" && parseDecimal(value) !== undefined;
}
