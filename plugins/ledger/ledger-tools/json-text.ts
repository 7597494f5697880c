/** Parts of a JSON text as texts: what a node said travels into a result without being parsed or written anew. */
import { parseJson } from "sluice-gateway/plugin";

/**
 * The members of a JSON object, each value as its text; undefined when `text` is no object. Of a text that is not JSON
 * it finds what it can: it ends, and that is all.
 */
export function membersOf(text: string): ReadonlyMap<string, string> | undefined {
  const members = new Map<string, string>();
  let at = skipSpace(text, 0);
  if (text[at] !== "{") return undefined;
  for (;;) {
    at = skipSpace(text, at + 1);
    if (text[at] !== '"') return text[at] === "}" && members.size === 0 ? members : undefined;
    const nameEnd = stringEnd(text, at);
    // Names with escapes are none that anybody looks for.
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

/** The value of a JSON text that may be none (`undefined` is not JSON). */
export function parsed(text: string | undefined): unknown {
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

/** Index after the string that starts at `open`. */
function stringEnd(text: string, open: number): number {
  let at = text.indexOf('"', open + 1);
  while (at !== -1 && isEscaped(text, at)) at = text.indexOf('"', at + 1);
  return at === -1 ? text.length : at + 1;
}

/** An odd number of backslashes stands before it. */
function isEscaped(text: string, at: number): boolean {
  let first = at;
  while (text[first - 1] === "\\") first--;
  return (at - first) % 2 === 1;
}

/** Index after the value that starts at `start`. */
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
        // The end of the object around a number or a word.
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
