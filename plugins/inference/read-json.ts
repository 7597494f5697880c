/** Reads JSON that a worker, its model or a client wrote as text. Nothing here throws. */
import {
  isObject,
  jsonExcess,
  parseBoundedJson,
  parseOrUndefined,
  spaceEnd,
  stringEnd,
  valueEnd,
} from "sluice-gateway/internal/toolkit";

export function readObject(text: string): Readonly<Record<string, unknown>> | undefined {
  const value = parseOrUndefined(text);
  return isObject(value) ? value : undefined;
}

/**
 * Maximum number of members and elements of JSON from a worker. A token with five alternatives and their log
 * probabilities has about 60, so this is enough for more than 8,192 tokens.
 */
const maxWorkerParts = 524_288;

/** `bytes`: JSON of a worker in UTF-8. Returns an empty object if it is not a JSON object. */
export function readChoice(
  bytes: Buffer,
  start = 0,
  end = bytes.length,
): Readonly<Record<string, unknown>> {
  const text = bytes.toString("utf8", start, end);
  if (jsonExcess(text, maxWorkerParts) !== undefined) return {};
  try {
    const value = parseBoundedJson(text);
    return isObject(value) ? value : {};
  } catch {
    return {};
  }
}

/**
 * Returns the text of a member, with the digits of its numbers. `text`: a valid JSON object. Undefined if it has no
 * member with this name, or writes the name with escapes.
 */
export function memberText(text: string, name: string): string | undefined {
  let found: string | undefined;
  for (let at = spaceEnd(text, 0); text[at] === "{" || text[at] === ",";) {
    const nameStart = spaceEnd(text, at + 1);
    const nameEnd = stringEnd(text, nameStart);
    const start = spaceEnd(text, spaceEnd(text, nameEnd) + 1);
    const end = valueEnd(text, start);
    // JSON.parse also uses the last of equal names.
    if (text.slice(nameStart, nameEnd) === `"${name}"`) found = text.slice(start, end);
    at = spaceEnd(text, end);
  }
  return found;
}
