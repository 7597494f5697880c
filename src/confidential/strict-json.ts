/**
 * JSON from a stranger, read so that no other reader can see something else in it: UTF-8 without a mark, no name twice in an
 * object (JSON.parse keeps the last, others the first), nesting bounded.
 */

const maxDepth = 64;
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

export type JsonObject = Readonly<Record<string, unknown>>;

/** The object that the bytes are; undefined for any other value and for whatever is not strict JSON. */
export function readJsonObject(bytes: Uint8Array, maxBytes: number): JsonObject | undefined {
  if (bytes.length > maxBytes) return undefined;
  try {
    const text = decoder.decode(bytes);
    const value: unknown = JSON.parse(text);
    if (!isJsonObject(value) || !isUnambiguous(text)) return undefined;
    return value;
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

/** No object names a member twice, and nothing is nested beyond the bound. `text`: what JSON.parse has accepted. */
function isUnambiguous(text: string): boolean {
  /** Of each value that is open: the names seen so far; undefined for an array. */
  const open: (Set<string> | undefined)[] = [];
  // What stands before a string tells whether it is a name: `{` or a comma, in an object.
  let isNameNext = false;
  for (let at = 0; at < text.length; at++) {
    const character = text[at];
    if (character === "{" || character === "[") {
      if (open.length === maxDepth) return false;
      open.push(character === "{" ? new Set() : undefined);
      isNameNext = character === "{";
    } else if (character === "}" || character === "]") {
      open.pop();
      isNameNext = false;
    } else if (character === ",") {
      isNameNext = open.at(-1) !== undefined;
    } else if (character === '"') {
      const end = endOfString(text, at);
      const names = open.at(-1);
      if (isNameNext && names !== undefined) {
        const name: unknown = JSON.parse(text.slice(at, end));
        // A string of a text that has been parsed.
        if (names.has(name as string)) return false;
        names.add(name as string);
      }
      isNameNext = false;
      at = end - 1;
    }
  }
  return true;
}

/** The index behind the closing quote of the string that starts at `at`. */
function endOfString(text: string, at: number): number {
  let end = at + 1;
  while (end < text.length && text[end] !== '"') end += text[end] === "\\" ? 2 : 1;
  return end + 1;
}
