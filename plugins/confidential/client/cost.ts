import { createPrice, parseDecimal } from "sluice-gateway/services";
import { isObject } from "sluice-gateway/internal/toolkit";
import type { UsageReport } from "../protocol/usage-report.ts";
import { isCount } from "../protocol/strict-json.ts";
import { countsOf } from "../protocol/text-frames.ts";

/**
 * Prices per token of each class, in billionths of the native token. This type and the next are not those of
 * `sluice-gateway/services`, whose declarations need the types of Node.
 */
export interface ClassPrices {
  readonly prompt: string;
  readonly cached: string;
  readonly completion: string;
  readonly reasoning: string;
}

/** The prices that a charge was computed with, from the `done` frame. The decimals are exact. */
export interface StreamPricing {
  readonly network: string;
  /** The offered coefficient; 1000 is a factor of 1. */
  readonly coefficient: number;
  /** Price per token in billionths of the native token; with `classes`, the highest of their prices. */
  readonly pricePerTokenNano: string;
  /** Prices of the classes of tokens. Undefined if all tokens have one price. */
  readonly classes?: ClassPrices | undefined;
  /** Price of one native token in USD. Undefined if it is not known; then the charge is 0. */
  readonly tokenUsdRate: string | undefined;
  /** Time at which the price was read, as in RFC 3339. */
  readonly asOf: string;
}

/**
 * Returns the cost in milli-CU: the sum of tokens × price over the classes of tokens (or total tokens ×
 * pricePerTokenNano, if all have one price) × coefficient / 1000 × tokenUsdRate, computed exactly and rounded half up
 * once. The coefficient is the lower one of the report's, which the enclave signed, and the gateway's: an enclave that
 * reports more than was offered is not paid more. Throws a RangeError if a price or rate is not a decimal.
 */
export function recomputeCost(
  report: Pick<UsageReport, "coefficient" | "tokens">,
  pricing: Pick<StreamPricing, "pricePerTokenNano" | "tokenUsdRate"> &
    Partial<Pick<StreamPricing, "coefficient" | "classes">>,
): number {
  const { pricePerTokenNano, tokenUsdRate, classes } = pricing;
  const coefficient = Math.min(report.coefficient, pricing.coefficient ?? Infinity);
  const prices =
    classes === undefined
      ? [pricePerTokenNano]
      : [classes.prompt, classes.cached, classes.completion, classes.reasoning];
  for (const decimal of [...prices, tokenUsdRate ?? "0"]) {
    if (parseDecimal(decimal) === undefined) {
      throw new RangeError(`expected a decimal, got "${decimal}"`);
    }
  }
  const price = createPrice({
    network: "",
    asOf: "",
    coefficient,
    pricePerTokenNano,
    classes,
    tokenUsdRate,
  });
  return price.costMilliCu(countsOf(report.tokens));
}

/** `value`: parsed JSON. Undefined if the pricing is missing or invalid. */
export function readPricing(value: unknown): StreamPricing | undefined {
  if (!isObject(value)) return undefined;
  const { network, tokenUsdRate, asOf } = value;
  if (typeof network !== "string" || typeof asOf !== "string") return undefined;
  const offer = readOffer(value);
  if (offer === undefined) return undefined;
  if (tokenUsdRate !== undefined && tokenUsdRate !== null && !isDecimal(tokenUsdRate)) {
    return undefined;
  }
  const rate = tokenUsdRate ?? undefined;
  return { network, ...offer, tokenUsdRate: rate, asOf };
}

export function readOffer(
  value: unknown,
): Pick<StreamPricing, "coefficient" | "pricePerTokenNano" | "classes"> | undefined {
  if (!isObject(value)) return undefined;
  const { coefficient, pricePerTokenNano } = value;
  if (!isCount(coefficient) || !isDecimal(pricePerTokenNano)) return undefined;
  const classes = readClasses(value["classes"]);
  if (classes === undefined && value["classes"] !== undefined) return undefined;
  return { coefficient, pricePerTokenNano, ...(classes !== undefined && { classes }) };
}

function readClasses(value: unknown): ClassPrices | undefined {
  if (!isObject(value)) return undefined;
  const { prompt, cached, completion, reasoning } = value;
  if (!isDecimal(prompt) || !isDecimal(cached)) return undefined;
  if (!isDecimal(completion) || !isDecimal(reasoning)) return undefined;
  return { prompt, cached, completion, reasoning };
}

function isDecimal(value: unknown): value is string {
  return typeof value === "string" && parseDecimal(value) !== undefined;
}
