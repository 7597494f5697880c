/**
 * Reads untrusted JSON so that every other reader sees the same value in it. The text must be UTF-8 without a byte
 * order mark, and an object must not have duplicate names (JSON.parse keeps the last one, other readers keep the
 * first). The depth and the number of parts are limited before anything is built from the text (decisions.md section
 * 13).
 */
import { isObject } from "../../../src/is-object.ts";
import { maxJsonDepth, maxJsonParts } from "../../../src/json-bounds.ts";
import { parseJson } from "../../../src/parse-json.ts";

const quote = 0x22;
const backslash = 0x5c;
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

export type JsonObject = Readonly<Record<string, unknown>>;

/** Returns the object that the bytes contain. Undefined for any other value, and for text that is not strict JSON. */
export function readJsonObject(bytes: Uint8Array, maxBytes: number): JsonObject | undefined {
  if (bytes.length > maxBytes) return undefined;
  try {
    const text = decoder.decode(bytes);
    if (!isUnambiguous(text)) return undefined;
    const value = parseJson(text);
    return isObject(value) ? value : undefined;
  } catch {
    // The bytes are not UTF-8 or not JSON.
    return undefined;
  }
}

/** Returns whether the value is a whole number of at least 0 that JSON represents exactly. */
export function isCount(value: unknown): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
}

/**
 * Returns whether no object has duplicate names and the limits hold. For text that is not JSON, the result is
 * unspecified.
 */
function isUnambiguous(text: string): boolean {
  /** The names seen so far of each open object. Undefined for an open array. */
  const open: (Set<string> | undefined)[] = [];
  let parts = 0;
  // A string in an object is a name if it follows `{` or a comma.
  let isNameNext = false;
  for (let at = 0; at < text.length; at++) {
    const character = text[at];
    if (character === "{" || character === "[") {
      if (open.length === maxJsonDepth) return false;
      // The first part has no comma before it.
      if (!isEmpty(text, at + 1) && ++parts > maxJsonParts) return false;
      open.push(character === "{" ? new Set() : undefined);
      isNameNext = character === "{";
    } else if (character === "}" || character === "]") {
      open.pop();
      isNameNext = false;
    } else if (character === ",") {
      if (++parts > maxJsonParts) return false;
      isNameNext = open.at(-1) !== undefined;
    } else if (character === '"') {
      const end = endOfString(text, at);
      const names = open.at(-1);
      if (isNameNext && names !== undefined) {
        const name = nameIn(text.slice(at, end));
        if (names.has(name)) return false;
        names.add(name);
      }
      isNameNext = false;
      at = end - 1;
    }
  }
  return true;
}

/** Returns whether the object or array that begins before `from` is empty. */
function isEmpty(text: string, from: number): boolean {
  let at = from;
  while (text.charCodeAt(at) <= 0x20) at++;
  return text[at] === "}" || text[at] === "]";
}

/** Returns the index after the closing quote of the string that starts at `at`. */
function endOfString(text: string, at: number): number {
  // Code units are ten times as fast as characters, and most of a request is one string.
  for (let end = at + 1; end < text.length; end++) {
    const unit = text.charCodeAt(end);
    if (unit === quote) return end + 1;
    if (unit === backslash) end++;
  }
  return text.length;
}

/** Returns the value of a JSON string. `string`: the string with its quotes. Throws if it is not a valid string. */
function nameIn(string: string): string {
  // JSON.parse returns a string for a text that begins with a quote.
  return string.includes("\\") ? (JSON.parse(string) as string) : string.slice(1, -1);
}
