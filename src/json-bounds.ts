/**
 * Finds JSON that costs far more than its bytes, before anything is built from it. A body of 10 MiB that is one long text
 * is parsed in milliseconds; the same body as a million small members holds the event loop for seconds (decisions.md
 * section 13).
 */

/** Maximum number of members and elements of one JSON text. */
export const maxJsonParts = 65_536;
/** Maximum number of arrays and objects around a value. It is also the default recursion limit of Substrate nodes. */
export const maxJsonDepth = 128;

/** The bound that a JSON text exceeds: more than `maxJsonParts`, or deeper than `maxJsonDepth`. */
export type JsonExcess = "parts" | "depth";

/** A shorter text cannot close more than `maxJsonDepth` levels, so it is either within the bounds or not JSON. */
const minTextLength = 2 * maxJsonDepth + 2;

const quote = 0x22;
const comma = 0x2c;
const openBracket = 0x5b;
const backslash = 0x5c;
const closeBracket = 0x5d;
const openBrace = 0x7b;
const closeBrace = 0x7d;

/**
 * Returns the bound that a JSON text exceeds, `undefined` if none. The result is exact for valid JSON; for other text it
 * may be either.
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

/** Returns the bound that a JSON text in UTF-8 exceeds, `undefined` if none. */
export function jsonBytesExcess(bytes: Buffer): JsonExcess | undefined {
  // Structure is ASCII, whose bytes are part of no other character in UTF-8. Most bodies need no text for this.
  return bytes.length < minTextLength ? undefined : jsonExcess(bytes.toString("latin1"));
}

/** Units of a string that are read one by one before the native search takes over. */
const stepsBeforeSearch = 32;

/**
 * Returns the index of the quote that ends a string; `from` is inside the string and not inside an escape. A long text
 * costs a native search. What comes before a quote that may be escaped is read unit by unit: a search for each escaped
 * quote would cost more.
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

/** Whether an array or object that was opened before `from` closes at once. */
function isEmpty(text: string, from: number): boolean {
  let at = from;
  while (text.charCodeAt(at) <= 0x20) at++;
  const unit = text.charCodeAt(at);
  return unit === closeBracket || unit === closeBrace;
}
