/** Checks the lines of a charge, and reduces them to the reserved amount. */
import type { ChargeLine } from "sluice-gateway/services";

/** Returns true for a non-negative safe integer. Sums are exact only if every amount is one. */
export function isAmount(milliCu: number): boolean {
  return Number.isSafeInteger(milliCu) && milliCu >= 0;
}

export function notAnAmount(milliCu: number): RangeError {
  return new RangeError(`${milliCu} is not an amount in milli-CU`);
}

/** Returns true if a line can be charged. Its names must be text, because they are written to the journal. */
export function isChargeable({
  costMilliCu,
  method,
  model = "",
  outcome = "",
}: ChargeLine): boolean {
  const isText = typeof method === "string" && typeof model === "string";
  return isAmount(costMilliCu) && isText && typeof outcome === "string";
}

export function notChargeable({ costMilliCu }: ChargeLine): RangeError {
  return isAmount(costMilliCu)
    ? new RangeError("a charge's method, model and outcome must be text")
    : notAnAmount(costMilliCu);
}

/**
 * Returns the lines with their sum reduced to `maxMilliCu`, from the last line backwards. `onCut` is called with the
 * surface of each reduced line and the milli-CU by which it was reduced.
 */
export function cutLines(
  lines: readonly ChargeLine[],
  maxMilliCu: number,
  onCut: (surface: string, milliCu: number) => void,
): readonly ChargeLine[] {
  let left = maxMilliCu;
  for (const { costMilliCu } of lines) left -= costMilliCu;
  if (left >= 0) return lines;
  left = maxMilliCu;
  return lines.map((line) => {
    const costMilliCu = Math.min(line.costMilliCu, left);
    left -= costMilliCu;
    if (costMilliCu === line.costMilliCu) return line;
    onCut(line.surface, line.costMilliCu - costMilliCu);
    return { ...line, costMilliCu };
  });
}
