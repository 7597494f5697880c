/**
 * Steps through JSON in a Buffer without parsing it. Each function takes an index and returns the index after what it
 * has read, or `malformed` if the bytes are not JSON, or are nested too deeply.
 */

export const malformed = -1;

/** Maximum nesting: the default recursion limit of serde_json, the parser of many backends. */
const maxDepth = 128;

export const quote = 0x22;
const comma = 0x2c;
const colon = 0x3a;
export const openBracket = 0x5b;
export const closeBracket = 0x5d;
export const openBrace = 0x7b;
const closeBrace = 0x7d;
const backslash = 0x5c;
const minus = 0x2d;
const zero = 0x30;

/**
 * How strictly bytes are checked. `strict` requires RFC 8259 and is for what clients send. `trusted` is for what a node
 * sends. It checks the structure in the same way, but finds the end of a string by a native search and does not check
 * what is inside, so that a block of megabytes takes microseconds. Neither checks UTF-8: see `isUtf8` of node:buffer.
 */
export type ScanMode = "strict" | "trusted";

/** Returns the index of the first byte at or after `i` that is not white space, or `end` if there is none. */
export function skipSpace(bytes: Buffer, i: number, end: number): number {
  let at = i;
  while (at < end) {
    const byte = bytes[at] ?? 0;
    // The first comparison decides for almost every byte.
    if (byte > 0x20 || (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09)) break;
    at++;
  }
  return at;
}

/** `depth`: arrays and objects around the value. Never reads at or after `end`, nor recurses deeper than `maxDepth`. */
export function skipValue(
  bytes: Buffer,
  i: number,
  end: number,
  depth: number,
  trust: ScanMode,
): number {
  if (i >= end) return malformed;
  switch (bytes[i] ?? 0) {
    case quote:
      return skipString(bytes, i, end, trust);
    case openBrace:
      return skipObject(bytes, i, end, depth, trust);
    case openBracket:
      return skipArray(bytes, i, end, depth, trust);
    case 0x74:
      return skipWord(bytes, i, end, "true");
    case 0x66:
      return skipWord(bytes, i, end, "false");
    case 0x6e:
      return skipWord(bytes, i, end, "null");
    default:
      return skipNumber(bytes, i, end);
  }
}

/** 1 for the bytes that need attention inside a string: the quote, the backslash and control characters. */
const special = new Uint8Array(256).fill(1, 0, 0x20);
special[quote] = 1;
special[backslash] = 1;

export function skipString(bytes: Buffer, i: number, end: number, trust: ScanMode): number {
  const near = trust === "strict" ? end : Math.min(end, i + nativeFrom);
  let at = i + 1;
  while (at < near) {
    const byte = bytes[at] ?? 0;
    if (special[byte] === 0) {
      at++;
    } else if (byte === quote) {
      return at + 1;
    } else {
      at = byte === backslash ? skipEscape(bytes, at, end) : malformed;
      if (at === malformed) return malformed;
    }
  }
  return trust === "strict" ? malformed : findStringEnd(bytes, at, end);
}

/** Number of bytes of a trusted string that are read one by one. A native search costs as much (measured). */
const nativeFrom = 16;

/** Returns the index after the closing quote of a string. `inside`: an index in the string, not within an escape. */
function findStringEnd(bytes: Buffer, inside: number, end: number): number {
  let from = inside;
  for (;;) {
    const found = bytes.indexOf(quote, from);
    if (found === -1 || found >= end) return malformed;
    let first = found;
    while (first > from && bytes[first - 1] === backslash) first--;
    if ((found - first) % 2 === 0) return found + 1;
    from = found + 1;
  }
}

function skipEscape(bytes: Buffer, i: number, end: number): number {
  if (i + 1 >= end) return malformed;
  switch (bytes[i + 1] ?? 0) {
    case quote:
    case backslash:
    case 0x2f: // /
    case 0x62: // b
    case 0x66: // f
    case 0x6e: // n
    case 0x72: // r
    case 0x74: // t
      return i + 2;
    case 0x75: // u
      return i + 6 <= end && areHex(bytes, i + 2, i + 6) ? i + 6 : malformed;
    default:
      return malformed;
  }
}

function areHex(bytes: Buffer, start: number, end: number): boolean {
  for (let at = start; at < end; at++) {
    const byte = bytes[at] ?? 0;
    const letter = byte | 0x20;
    if (!isDigit(byte) && !(letter >= 0x61 && letter <= 0x66)) return false;
  }
  return true;
}

function isDigit(byte: number | undefined): boolean {
  return byte !== undefined && byte >= zero && byte <= 0x39;
}

function skipDigits(bytes: Buffer, i: number, end: number): number {
  let at = i;
  while (at < end && isDigit(bytes[at])) at++;
  return at;
}

function skipNumber(bytes: Buffer, i: number, end: number): number {
  const first = bytes[i] === minus ? i + 1 : i;
  let at = skipDigits(bytes, first, end);
  if (at === first || (bytes[first] === zero && at > first + 1)) return malformed;
  if (at < end && bytes[at] === 0x2e) {
    const fraction = at + 1;
    at = skipDigits(bytes, fraction, end);
    if (at === fraction) return malformed;
  }
  if (at < end && (bytes[at] === 0x65 || bytes[at] === 0x45)) {
    const signed = at + 1 < end && (bytes[at + 1] === 0x2b || bytes[at + 1] === minus);
    const exponent = signed ? at + 2 : at + 1;
    at = skipDigits(bytes, exponent, end);
    if (at === exponent) return malformed;
  }
  return at;
}

function skipWord(bytes: Buffer, i: number, end: number, word: string): number {
  const after = i + word.length;
  return after <= end && rangeIs(bytes, i, after, word) ? after : malformed;
}

export function rangeIs(bytes: Buffer, start: number, end: number, word: string): boolean {
  if (end - start !== word.length) return false;
  for (let k = 0; k < word.length; k++) {
    if (bytes[start + k] !== word.charCodeAt(k)) return false;
  }
  return true;
}

/** Called for an element of an array at `i`. Returns the index after it, or `malformed`. */
export type ReadElement<T> = (bytes: Buffer, i: number, end: number, context: T) => number;

/** Called for a member of an object with the range of its name, including the quotes, and the range of its value. */
export type ReadMember<T> = (
  bytes: Buffer,
  nameStart: number,
  nameEnd: number,
  valueStart: number,
  valueEnd: number,
  context: T,
) => void;

function skipArray(bytes: Buffer, i: number, end: number, depth: number, trust: ScanMode): number {
  const skip = trust === "strict" ? skipStrictElement : skipTrustedElement;
  return readElements(bytes, i, end, depth, skip, depth + 1);
}

const skipStrictElement: ReadElement<number> = (bytes, i, end, depth) =>
  skipValue(bytes, i, end, depth, "strict");
const skipTrustedElement: ReadElement<number> = (bytes, i, end, depth) =>
  skipValue(bytes, i, end, depth, "trusted");

export function readElements<T>(
  bytes: Buffer,
  i: number,
  end: number,
  depth: number,
  element: ReadElement<T>,
  context: T,
): number {
  if (depth >= maxDepth || i >= end || bytes[i] !== openBracket) return malformed;
  let at = skipSpace(bytes, i + 1, end);
  if (at < end && bytes[at] === closeBracket) return at + 1;
  for (;;) {
    at = element(bytes, at, end, context);
    if (at === malformed) return malformed;
    at = skipSpace(bytes, at, end);
    if (at >= end) return malformed;
    if (bytes[at] === closeBracket) return at + 1;
    if (bytes[at] !== comma) return malformed;
    at = skipSpace(bytes, at + 1, end);
  }
}

function skipObject(bytes: Buffer, i: number, end: number, depth: number, trust: ScanMode): number {
  return readMembers(bytes, i, end, depth, trust, undefined, undefined);
}

export function readMembers<T>(
  bytes: Buffer,
  i: number,
  end: number,
  depth: number,
  trust: ScanMode,
  member: ReadMember<T> | undefined,
  context: T,
): number {
  if (depth >= maxDepth || i >= end || bytes[i] !== openBrace) return malformed;
  let at = skipSpace(bytes, i + 1, end);
  if (at < end && bytes[at] === closeBrace) return at + 1;
  for (;;) {
    if (at >= end || bytes[at] !== quote) return malformed;
    const nameEnd = skipString(bytes, at, end, trust);
    if (nameEnd === malformed) return malformed;
    const value = skipColon(bytes, nameEnd, end);
    if (value === malformed) return malformed;
    const valueEnd = skipValue(bytes, value, end, depth + 1, trust);
    if (valueEnd === malformed) return malformed;
    if (member !== undefined) member(bytes, at, nameEnd, value, valueEnd, context);
    at = skipSpace(bytes, valueEnd, end);
    if (at >= end) return malformed;
    if (bytes[at] === closeBrace) return at + 1;
    if (bytes[at] !== comma) return malformed;
    at = skipSpace(bytes, at + 1, end);
  }
}

/** Returns `malformed` if the member is missing. Does not read what follows the member. `name`: an ASCII word. */
export function findMember(bytes: Buffer, i: number, end: number, name: string): number {
  if (i >= end || bytes[i] !== openBrace) return malformed;
  let at = skipSpace(bytes, i + 1, end);
  for (;;) {
    if (at >= end || bytes[at] !== quote) return malformed;
    const nameEnd = skipString(bytes, at, end, "trusted");
    const value = nameEnd === malformed ? malformed : skipColon(bytes, nameEnd, end);
    if (value === malformed || rangeIs(bytes, at + 1, nameEnd - 1, name)) return value;
    const valueEnd = skipValue(bytes, value, end, 1, "trusted");
    if (valueEnd === malformed) return malformed;
    at = skipSpace(bytes, valueEnd, end);
    if (at >= end || bytes[at] !== comma) return malformed;
    at = skipSpace(bytes, at + 1, end);
  }
}

/** Returns the index of a member's value. `i`: the index after the name. White space may surround the colon. */
function skipColon(bytes: Buffer, i: number, end: number): number {
  const at = skipSpace(bytes, i, end);
  return at < end && bytes[at] === colon ? skipSpace(bytes, at + 1, end) : malformed;
}
