/**
 * Times, and decimals without floating point. The cost of inference is exact to the last digit until it is rounded,
 * once.
 */

/** The number `digits` / 10^`places`. Never negative. */
export interface Decimal {
  readonly digits: bigint;
  readonly places: number;
}

/** The accepted notation: at most 18 digits before the point and 30 after it. */
const form = /^(\d{1,18})(?:\.(\d{1,30}))?$/;

/** Parses a decimal (`12`, `0.001`). Undefined for anything else, including signs, exponents and spaces. */
export function parseDecimal(text: string): Decimal | undefined {
  const match = form.exec(text);
  if (match === null) return undefined;
  const [, whole = "", fraction = ""] = match;
  return { digits: BigInt(whole + fraction), places: fraction.length };
}

/**
 * Returns a JSON value as the text of a decimal. A number has the digits that JavaScript prints (including `1.5e-7`).
 * Undefined if the value is not a decimal.
 */
export function decimalText(value: unknown): string | undefined {
  const text = typeof value === "number" ? withoutExponent(String(value)) : value;
  return typeof text === "string" && parseDecimal(text) !== undefined ? text : undefined;
}

/** Writes `1.5e-7` as `0.00000015`. Text with a positive exponent is unchanged and not a valid decimal. */
function withoutExponent(text: string): string {
  const [, whole = "", fraction = "", places] = /^(\d)(?:\.(\d+))?e-(\d+)$/.exec(text) ?? [];
  return places === undefined ? text : `0.${"0".repeat(Number(places) - 1)}${whole}${fraction}`;
}

/** Returns the product of all factors. Only the end result is rounded, half up to an integer. */
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

/** RFC 3339 section 5.6, or a date, which means the start of that day in UTC. */
const rfc3339 =
  /^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])([Tt]([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,9})?([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d))?$/;

/** Returns a time (`2026-01-31T12:00:00Z`) or a day (`2026-01-31`) in milliseconds since 1970, else undefined. */
export function parseTime(text: string): number | undefined {
  const time = rfc3339.test(text) ? Date.parse(text.toUpperCase()) : NaN;
  if (Number.isNaN(time)) return undefined;
  // Date.parse accepts the 31st of a shorter month and returns a day of the next month.
  const date = new Date(`${text.slice(0, 10)}T00:00:00Z`);
  return date.toISOString().slice(0, 10) === text.slice(0, 10) ? time : undefined;
}
