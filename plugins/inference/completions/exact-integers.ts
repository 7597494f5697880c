/**
 * Keeps the digits of integers that JavaScript rounds, because they do not fit into 53 bits: ids in the inputs of tools,
 * and bounds in their schemas.
 */
import { isObject, parseBoundedJson } from "sluice-gateway/internal/toolkit";
import type { Json } from "./check.ts";

/** TypeScript does not declare texts of numbers yet, which JSON.stringify writes as they are. */
const { rawJSON, isRawJSON } = JSON as unknown as {
  rawJSON: (text: string) => object;
  isRawJSON: (value: unknown) => boolean;
};

const zero = 0x30;
const nine = 0x39;
/** Number of digits of 2^53. */
const roundedDigits = 16;

/**
 * Returns the members of a body. Below the first level, an integer that would be rounded is an object that JSON.stringify
 * writes with its digits. `parsed`: the value of `bytes`.
 */
export function withExactIntegers(parsed: Json, bytes: Buffer | undefined): Json {
  if (bytes === undefined || !hasLongNumber(bytes)) return parsed;
  const exact = parseBoundedJson(bytes.toString(), exactInteger);
  if (!isObject(exact)) return parsed;
  const members = Object.entries(exact);
  return Object.fromEntries(
    members.map(([name, value]) => [name, isRawJSON(value) ? parsed[name] : value]),
  );
}

function exactInteger(
  _: string,
  value: unknown,
  { source }: { readonly source?: string },
): unknown {
  const isRounded = Number.isInteger(value) && !Number.isSafeInteger(value);
  return isRounded && source !== undefined ? rawJSON(source) : value;
}

/** Returns true if there are enough digits in a row. One of them is then at a multiple of their number. */
function hasLongNumber(bytes: Buffer): boolean {
  for (let at = 0; at < bytes.length; at += roundedDigits) {
    if (!isDigit(bytes[at])) continue;
    let start = at;
    while (isDigit(bytes[start - 1])) start--;
    let end = at + 1;
    while (isDigit(bytes[end])) end++;
    if (end - start >= roundedDigits) return true;
  }
  return false;
}

function isDigit(byte: number | undefined): boolean {
  return byte !== undefined && byte >= zero && byte <= nine;
}
