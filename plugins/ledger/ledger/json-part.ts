/** Finds a part of a valid JSON text: an element of an array, or a member of nested objects. */
import type { Body } from "./body.ts";
import {
  closeBrace,
  malformed,
  quote,
  rangeIs,
  skipColon,
  skipSpace,
  skipString,
  skipValue,
} from "../../../src/http/json/scan.ts";

/**
 * Returns the text of the element at `index` of an array, without surrounding white space. Undefined if `array` is not
 * an array or is shorter.
 */
export function elementOf(array: string, index: number): string | undefined {
  if (array[0] !== "[" || index < 0) return undefined;
  let element = 0;
  let start = 1;
  let open = 0;
  for (let at = 1; at < array.length; at++) {
    switch (array.charAt(at)) {
      case '"':
        at = closingQuote(array, at);
        break;
      case "[":
      case "{":
        open++;
        break;
      case "]":
      case "}":
        if (open-- > 0) break;
        return element === index ? textOrNone(array.slice(start, at)) : undefined;
      case ",":
        if (open > 0) break;
        if (element === index) return textOrNone(array.slice(start, at));
        element++;
        start = at + 1;
        break;
      default:
    }
  }
  return undefined;
}

function textOrNone(text: string): string | undefined {
  const trimmed = text.trim();
  return trimmed === "" ? undefined : trimmed;
}

/** Returns the index of the quote that closes the string opened at `open`. */
function closingQuote(text: string, open: number): number {
  let at = text.indexOf('"', open + 1);
  while (at !== -1 && isEscaped(text, at)) at = text.indexOf('"', at + 1);
  return at === -1 ? text.length : at;
}

/** Returns true if an odd number of backslashes precedes the index. */
function isEscaped(text: string, at: number): boolean {
  let first = at;
  while (text[first - 1] === "\\") first--;
  return (at - first) % 2 === 1;
}

/** Returns the text without the white space outside strings. */
export function compact(text: string): string {
  let result = "";
  let start = 0;
  for (let at = 0; at < text.length; at++) {
    const char = text[at];
    if (char === '"') {
      at = closingQuote(text, at);
    } else if (char === " " || char === "\n" || char === "\r" || char === "\t") {
      result += text.slice(start, at);
      start = at + 1;
    }
  }
  return start === 0 ? text : result + text.slice(start);
}

/** Returns the JSON text of the member at the end of a path of names. Undefined if the path does not exist. */
export function memberAt(value: Body, path: readonly string[]): string | undefined {
  const bytes = typeof value === "string" ? Buffer.from(value) : value;
  let start = skipSpace(bytes, 0, bytes.length);
  for (const name of path) {
    const found = memberStart(bytes, start, name);
    if (found === undefined) return undefined;
    start = found;
  }
  const end = skipValue(bytes, start, bytes.length, path.length, "trusted");
  return end === malformed ? undefined : bytes.toString("utf8", start, end);
}

/** Returns the index at which the value of a member of the object at `open` starts. */
function memberStart(bytes: Buffer, open: number, name: string): number | undefined {
  const end = bytes.length;
  if (bytes[open] !== 0x7b) return undefined;
  let at = skipSpace(bytes, open + 1, end);
  while (at < end && bytes[at] === quote) {
    const nameEnd = skipString(bytes, at, end, "trusted");
    const value = nameEnd === malformed ? malformed : skipColon(bytes, nameEnd, end);
    if (value === malformed) return undefined;
    if (rangeIs(bytes, at + 1, nameEnd - 1, name)) return value;
    const valueEnd = skipValue(bytes, value, end, 1, "trusted");
    if (valueEnd === malformed) return undefined;
    at = skipSpace(bytes, valueEnd, end);
    if (at < end && bytes[at] !== closeBrace) at = skipSpace(bytes, at + 1, end);
  }
  return undefined;
}
