/**
 * Finds JSON that is expensive to parse for its size, before it is parsed. A body of 10 MiB that is one long string is
 * parsed in milliseconds, but a body of the same size with a million small members blocks the event loop for seconds
 * (decisions.md section 13).
 */

/** Maximum number of members and elements of one JSON text. */
export const maxJsonParts = 65_536;
/** Maximum number of arrays and objects around a value. It is also the default recursion limit of Substrate nodes. */
export const maxJsonDepth = 128;

/** The limit that a JSON text exceeds: `parts` for `maxJsonParts`, `depth` for `maxJsonDepth`. */
export type JsonExcess = "parts" | "depth";

/** A shorter text cannot close more than `maxJsonDepth` levels, so it is either within the limits or not JSON. */
const minTextLength = 2 * maxJsonDepth + 2;

const quote = 0x22;
const comma = 0x2c;
const openBracket = 0x5b;
const backslash = 0x5c;
const closeBracket = 0x5d;
const openBrace = 0x7b;
const closeBrace = 0x7d;

/**
 * Returns the limit that a JSON text exceeds, or `undefined` if it exceeds none. The result is exact for valid JSON.
 * For any other text, the result may be wrong in both directions.
 */
export function jsonExcess(text: string): JsonExcess | undefined {
  if (text.length < minTextLength) return undefined;
  let parts = 0;
  let depth = 0;
  for (let at = 0; at < text.length; at++) {
    switch (text.charCodeAt(at)) {
      case quote:
        at = closingQuote(text, at + 1);
        break;
      case comma:
        if (++parts > maxJsonParts) return "parts";
        break;
      case openBracket:
      case openBrace:
        if (++depth > maxJsonDepth) return "depth";
        // The first part has no comma before it.
        if (!isEmpty(text, at + 1) && ++parts > maxJsonParts) return "parts";
        break;
      case closeBracket:
      case closeBrace:
        depth--;
        break;
    }
  }
  return undefined;
}

/** Returns the limit that a JSON text in UTF-8 exceeds, or `undefined` if it exceeds none. */
export function jsonBytesExcess(bytes: Buffer): JsonExcess | undefined {
  // The structure of JSON is ASCII, and in UTF-8 these bytes are never part of another character, so latin1 is enough.
  // Most bodies are too short to need the conversion.
  return bytes.length < minTextLength ? undefined : jsonExcess(bytes.toString("latin1"));
}

/** Number of code units of a string that are read one by one before the native search is used. */
const stepsBeforeSearch = 32;

/**
 * Returns the index of the quote that ends a string. `from`: an index inside the string, but not inside an escape. In a
 * long string the quote is found by a native search. After a quote that may be escaped, the next units are read one by
 * one, because a search for each escaped quote would cost more.
 */
function closingQuote(text: string, from: number): number {
  let at = from;
  let near = from + stepsBeforeSearch;
  for (;;) {
    for (; at < near && at < text.length; at++) {
      const unit = text.charCodeAt(at);
      if (unit === quote) return at;
      if (unit === backslash) at++;
    }
    const found = text.indexOf('"', at);
    if (found === -1) return text.length;
    if (text.charCodeAt(found - 1) !== backslash) return found;
    near = found + stepsBeforeSearch;
  }
}

/** Returns true if the array or object that was opened directly before `from` is empty. */
function isEmpty(text: string, from: number): boolean {
  let at = from;
  while (text.charCodeAt(at) <= 0x20) at++;
  const unit = text.charCodeAt(at);
  return unit === closeBracket || unit === closeBrace;
}
