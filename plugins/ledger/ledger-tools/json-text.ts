/** Extracts parts of a JSON text as text, so that a node's answer becomes part of a result without parsing it. */
import { parseJson } from "sluice-gateway/plugin";

/**
 * Returns the members of a JSON object, with each value as text. Undefined if `text` is not an object. For text that is
 * not JSON, the result is unspecified, but the function always returns.
 */
export function membersOf(text: string): ReadonlyMap<string, string> | undefined {
  const members = new Map<string, string>();
  let at = skipSpace(text, 0);
  if (text[at] !== "{") return undefined;
  for (;;) {
    at = skipSpace(text, at + 1);
    if (text[at] !== '"') return text[at] === "}" && members.size === 0 ? members : undefined;
    const nameEnd = stringEnd(text, at);
    // Names with escapes are not decoded, because no caller looks for one.
    const name = text.slice(at + 1, nameEnd - 1);
    at = skipSpace(text, nameEnd);
    if (text[at] !== ":") return undefined;
    const start = skipSpace(text, at + 1);
    const end = valueEnd(text, start);
    members.set(name, text.slice(start, end));
    at = skipSpace(text, end);
    if (text[at] === "}") return members;
    if (text[at] !== ",") return undefined;
  }
}

/** Parses a JSON text. Undefined if it is missing or not JSON. */
export function parseOrUndefined(text: string | undefined): unknown {
  if (text === undefined) return undefined;
  try {
    return parseJson(text);
  } catch {
    return undefined;
  }
}

function skipSpace(text: string, from: number): number {
  let at = from;
  for (;;) {
    const char = text[at];
    if (char !== " " && char !== "\n" && char !== "\r" && char !== "\t") return at;
    at++;
  }
}

/** Returns the index after the string that starts at `open`. */
function stringEnd(text: string, open: number): number {
  let at = text.indexOf('"', open + 1);
  while (at !== -1 && isEscaped(text, at)) at = text.indexOf('"', at + 1);
  return at === -1 ? text.length : at + 1;
}

/** Returns true if an odd number of backslashes precedes the index. */
function isEscaped(text: string, at: number): boolean {
  let first = at;
  while (text[first - 1] === "\\") first--;
  return (at - first) % 2 === 1;
}

/** Returns the index after the value that starts at `start`. */
function valueEnd(text: string, start: number): number {
  let open = 0;
  for (let at = start; at < text.length; at++) {
    switch (text.charAt(at)) {
      case '"':
        at = stringEnd(text, at) - 1;
        break;
      case "{":
      case "[":
        open++;
        continue;
      case "}":
      case "]":
        // The end of the object that contains a number or a word.
        if (open === 0) return at;
        open--;
        break;
      case ",":
      case " ":
      case "\n":
      case "\r":
      case "\t":
        if (open === 0) return at;
        continue;
      default:
        continue;
    }
    // A string, an object or an array has ended.
    if (open === 0) return at + 1;
  }
  return text.length;
}
