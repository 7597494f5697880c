/**
 * Steps through JSON text without parsing it. Each function takes an index into the text and returns the index after
 * what it has read. The results are exact for valid JSON; for any other text they are some index, at most the length of
 * the text. src/http/json/scan.ts does the same in a Buffer, and validates. Browsers run this file, too.
 */

const quote = 0x22;
const comma = 0x2c;
const openBracket = 0x5b;
const backslash = 0x5c;
const closeBracket = 0x5d;
const openBrace = 0x7b;
const closeBrace = 0x7d;

/** Number of code units of a string that are read one by one before the native search is used. */
const stepsBeforeSearch = 32;

export function spaceEnd(text: string, from: number): number {
  let at = from;
  while (isSpace(text.charCodeAt(at))) at++;
  return at;
}

function isSpace(unit: number): boolean {
  return unit === 0x20 || unit === 0x0a || unit === 0x0d || unit === 0x09;
}

/**
 * In a long string, the closing quote is found by a native search. After a quote that may be escaped, the next units
 * are read one by one, because a search for each escaped quote would cost more.
 */
export function stringEnd(text: string, open: number): number {
  let at = open + 1;
  let near = at + stepsBeforeSearch;
  for (;;) {
    for (; at < near && at < text.length; at++) {
      const unit = text.charCodeAt(at);
      if (unit === quote) return at + 1;
      if (unit === backslash) at++;
    }
    const found = text.indexOf('"', at);
    if (found === -1) return text.length;
    if (text.charCodeAt(found - 1) !== backslash) return found + 1;
    near = found + stepsBeforeSearch;
  }
}

export function valueEnd(text: string, start: number): number {
  let depth = 0;
  for (let at = start; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    if (unit === openBrace || unit === openBracket) {
      depth++;
    } else if (unit === quote) {
      at = stringEnd(text, at) - 1;
      if (depth === 0) return at + 1;
    } else if (unit === closeBrace || unit === closeBracket) {
      // At depth 0 this closes the object or array around a number or a word.
      if (depth === 0) return at;
      if (--depth === 0) return at + 1;
    } else if (depth === 0 && (unit === comma || isSpace(unit))) {
      return at;
    }
  }
  return text.length;
}

export function isEmpty(text: string, open: number): boolean {
  const unit = text.charCodeAt(spaceEnd(text, open + 1));
  return unit === closeBracket || unit === closeBrace;
}

/** Finds the end of a JSON object that arrives in pieces. Reads each character once. */
export class ObjectEnd {
  /** True after the brace that closes the object. Exact for valid JSON. */
  isReached = false;
  #depth = 0;
  #isInString = false;
  #isEscaped = false;

  add(text: string): void {
    for (let at = 0; at < text.length && !this.isReached; at++) {
      const unit = text.charCodeAt(at);
      if (this.#isEscaped) this.#isEscaped = false;
      else if (this.#isInString && unit === backslash) this.#isEscaped = true;
      else if (unit === quote) this.#isInString = !this.#isInString;
      else if (this.#isInString) continue;
      else if (unit === openBrace) this.#depth++;
      else if (unit === closeBrace) this.isReached = --this.#depth <= 0;
    }
  }
}
