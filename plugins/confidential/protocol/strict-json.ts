/**
 * Reads untrusted JSON so that every other reader sees the same value in it: UTF-8 without a byte order mark, and no
 * duplicate names (JSON.parse keeps the last one, other readers keep the first). The depth and the number of parts are
 * limited before anything is built from the text (decisions.md section 13).
 */
import {
  isObject,
  jsonExcess,
  parseBoundedJson,
  spaceEnd,
  stringEnd,
} from "sluice-gateway/internal/toolkit";

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

export type JsonObject = Readonly<Record<string, unknown>>;

/** Undefined for anything other than an object, and for text that is not strict JSON. */
export function readJsonObject(bytes: Uint8Array, maxBytes: number): JsonObject | undefined {
  if (bytes.length > maxBytes) return undefined;
  try {
    const text = decoder.decode(bytes);
    if (jsonExcess(text) !== undefined || repeatsName(text)) return undefined;
    const value = parseBoundedJson(text);
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** Returns true for a whole number of at least 0 that JSON represents exactly. */
export function isCount(value: unknown): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
}

/** Returns true if an object of a valid JSON text has duplicate names. For any other text the result is unspecified. */
function repeatsName(text: string): boolean {
  /** The names seen so far of each enclosing value. Undefined before the first one, and for an array. */
  const open: (Set<string> | undefined)[] = [];
  for (let at = 0; at < text.length; at++) {
    const character = text[at];
    if (character === "{" || character === "[") {
      open.push(undefined);
    } else if (character === "}" || character === "]") {
      open.pop();
    } else if (character === '"') {
      const end = stringEnd(text, at);
      // Only a name has a colon after it.
      if (text[spaceEnd(text, end)] === ":" && open.length > 0) {
        const names = (open[open.length - 1] ??= new Set());
        const name = nameIn(text.slice(at, end));
        if (names.has(name)) return true;
        names.add(name);
      }
      at = end - 1;
    }
  }
  return false;
}

/** Returns the value of a JSON string. `string`: the string with its quotes. Throws if it is not a valid string. */
function nameIn(string: string): string {
  // JSON.parse returns a string for a text that begins with a quote.
  return string.includes("\\") ? (JSON.parse(string) as string) : string.slice(1, -1);
}
