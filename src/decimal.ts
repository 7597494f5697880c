/** Decimals without a float: the money of inference is exact to the last digit until it is rounded, once. */

/** `digits` / 10^`places`; never negative. */
export interface Decimal {
  readonly digits: bigint;
  readonly places: number;
}

/** The longest decimal that is believed: 18 digits before the point, 30 behind it. */
const form = /^(\d{1,18})(?:\.(\d{1,30}))?$/;

/** The decimal that the text stands for (`12`, `0.001`); undefined for anything else: signs, exponents, spaces. */
export function parseDecimal(text: string): Decimal | undefined {
  const match = form.exec(text);
  if (match === null) return undefined;
  const [, whole = "", fraction = ""] = match;
  return { digits: BigInt(whole + fraction), places: fraction.length };
}

/** A decimal from JSON: a string, or a number by the digits that JavaScript prints for it (`1.5e-7` included). */
export function decimalText(value: unknown): string | undefined {
  const text = typeof value === "number" ? withoutExponent(String(value)) : value;
  return typeof text === "string" && parseDecimal(text) !== undefined ? text : undefined;
}

/** `1.5e-7` as `0.00000015`; large exponents stay, and are then no decimal. */
function withoutExponent(text: string): string {
  const [, whole = "", fraction = "", places] = /^(\d)(?:\.(\d+))?e-(\d+)$/.exec(text) ?? [];
  return places === undefined ? text : `0.${"0".repeat(Number(places) - 1)}${whole}${fraction}`;
}

/** The product of a count and decimals, rounded half up to an integer, once. */
export function productHalfUp(count: bigint, ...factors: readonly Decimal[]): bigint {
  let digits = count;
  let places = 0;
  for (const factor of factors) {
    digits *= factor.digits;
    places += factor.places;
  }
  const unit = 10n ** BigInt(places);
  return (2n * digits + unit) / (2n * unit);
}
