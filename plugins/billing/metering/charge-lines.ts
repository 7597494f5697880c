import type { ChargeLine, Pricing } from "sluice-gateway/services";
import { isObject } from "sluice-gateway/internal/toolkit";
import type { ChargeMetrics } from "./metrics.ts";

/** Sums are exact only if every amount is a non-negative safe integer. */
export function isAmount(milliCu: number): boolean {
  return Number.isSafeInteger(milliCu) && milliCu >= 0;
}

export function notAnAmount(milliCu: number): RangeError {
  return new RangeError(`${milliCu} is not an amount in milli-CU`);
}

/** A line that cannot be written would fail all charges of its commit. */
export function isChargeable(line: ChargeLine): boolean {
  const { costMilliCu, surface, method, model = "", outcome = "" } = line;
  const { inputTokens = 0, outputTokens = 0, cachedTokens = 0, reasoningTokens = 0 } = line;
  return (
    isAmount(costMilliCu) &&
    typeof surface === "string" &&
    typeof method === "string" &&
    typeof model === "string" &&
    typeof outcome === "string" &&
    isAmount(inputTokens) &&
    isAmount(outputTokens) &&
    isAmount(cachedTokens) &&
    isAmount(reasoningTokens) &&
    (line.pricing === undefined || (isObject(line.pricing) && isPricing(line.pricing)))
  );
}

function isPricing({ coefficient, classes, tokenUsdRate = "", ...texts }: Pricing): boolean {
  const { network, pricePerTokenNano, asOf } = texts;
  return (
    typeof coefficient === "number" &&
    areTexts(network, pricePerTokenNano, tokenUsdRate, asOf) &&
    (classes === undefined || (isObject(classes) && areTexts(...Object.values(classes))))
  );
}

function areTexts(...values: readonly unknown[]): boolean {
  return values.every((value) => typeof value === "string");
}

export function notChargeable({ costMilliCu }: ChargeLine): RangeError {
  return isAmount(costMilliCu)
    ? new RangeError("the names, the tokens or the prices of a charge are not valid")
    : notAnAmount(costMilliCu);
}

/** Reduces the sum to `maxMilliCu`, from the last line backwards. `cut`: counts the milli-CU that are taken off. */
export function cutLines(
  lines: readonly ChargeLine[],
  maxMilliCu: number,
  cut: ChargeMetrics["cut"],
): readonly ChargeLine[] {
  let left = maxMilliCu;
  for (const { costMilliCu } of lines) left -= costMilliCu;
  if (left >= 0) return lines;
  left = maxMilliCu;
  return lines.map((line) => {
    const costMilliCu = Math.min(line.costMilliCu, left);
    left -= costMilliCu;
    if (costMilliCu === line.costMilliCu) return line;
    cut(line.surface).add(line.costMilliCu - costMilliCu);
    return { ...line, costMilliCu };
  });
}
