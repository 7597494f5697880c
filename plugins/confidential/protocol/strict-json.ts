/**
 * Reads JSON from a stranger so that no other reader can see something else in it: UTF-8 without a byte order mark, and
 * no name twice in an object (JSON.parse keeps the last one, other readers keep the first). It also bounds what the
 * text may cost, before anything is built from it (decisions.md section 13).
 */
import { maxJsonDepth, maxJsonParts } from "../../../src/json-bounds.ts";
import { parseJson } from "../../../src/parse-json.ts";

const quote = 0x22;
const backslash = 0x5c;
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

export type JsonObject = Readonly<Record<string, unknown>>;

/** The object that the bytes are; undefined for any other value and for whatever is not strict JSON. */
export function readJsonObject(bytes: Uint8Array, maxBytes: number): JsonObject | undefined {
  if (bytes.length > maxBytes) return undefined;
  try {
    const text = decoder.decode(bytes);
    if (!isUnambiguous(text)) return undefined;
    const value = parseJson(text);
    return isJsonObject(value) ? value : undefined;
  } catch {
    // Not UTF-8 or not JSON.
    return undefined;
  }
}

export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** A whole number that JSON carries exactly. */
export function isCount(value: unknown): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
}

/**
 * Whether no object names a member twice and the bounds hold. For a text that is not JSON the result may be either.
 */
function isUnambiguous(text: string): boolean {
  /** Of each value that is open: the names seen so far; undefined for an array. */
  const open: (Set<string> | undefined)[] = [];
  let parts = 0;
  // What stands before a string tells whether it is a name: `{` or a comma, in an object.
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

/** Whether the object or array that was opened before `from` closes at once. */
function isEmpty(text: string, from: number): boolean {
  let at = from;
  while (text.charCodeAt(at) <= 0x20) at++;
  return text[at] === "}" || text[at] === "]";
}

/** Returns the index after the closing quote of the string that starts at `at`. */
function endOfString(text: string, at: number): number {
  // By code units: ten times as fast as by characters, and most of a request is one string.
  for (let end = at + 1; end < text.length; end++) {
    const unit = text.charCodeAt(end);
    if (unit === quote) return end + 1;
    if (unit === backslash) end++;
  }
  return text.length;
}

/** `string`: with its quotes. Throws where it is no string. */
function nameIn(string: string): string {
  // A string of JSON is one of JavaScript.
  return string.includes("\\") ? (JSON.parse(string) as string) : string.slice(1, -1);
}
