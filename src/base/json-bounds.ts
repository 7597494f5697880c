/**
 * Finds JSON that is expensive to parse for its size, before it is parsed. A body of 10 MiB that is one long string is
 * parsed in milliseconds, but a body of the same size with a million small members blocks the event loop for seconds
 * (decisions.md section 13).
 */
import { isEmpty, stringEnd } from "./json-text.ts";

export const maxJsonParts = 65_536;
/** Maximum nesting, which is also the default recursion limit of serde_json. */
export const maxJsonDepth = 128;

export type JsonExcess = "parts" | "depth";

/** A shorter text cannot close more than `maxJsonDepth` levels, so it is either within the limits or not JSON. */
const minTextLength = 2 * maxJsonDepth + 2;

const quote = 0x22;
const comma = 0x2c;
const openBracket = 0x5b;
const closeBracket = 0x5d;
const openBrace = 0x7b;
const closeBrace = 0x7d;

/** The result is exact for valid JSON. For any other text, it may be wrong in both directions. */
export function jsonExcess(text: string, maxParts: number = maxJsonParts): JsonExcess | undefined {
  if (text.length < minTextLength) return undefined;
  let parts = 0;
  let depth = 0;
  for (let at = 0; at < text.length; at++) {
    switch (text.charCodeAt(at)) {
      case quote:
        at = stringEnd(text, at) - 1;
        break;
      case comma:
        if (++parts > maxParts) return "parts";
        break;
      case openBracket:
      case openBrace:
        if (++depth > maxJsonDepth) return "depth";
        // The first part has no comma before it.
        if (!isEmpty(text, at) && ++parts > maxParts) return "parts";
        break;
      case closeBracket:
      case closeBrace:
        depth--;
        break;
    }
  }
  return undefined;
}

export function jsonBytesExcess(bytes: Buffer): JsonExcess | undefined {
  // The structure of JSON is ASCII, and in UTF-8 these bytes are never part of another character, so latin1 is enough.
  // Most bodies are too short to need the conversion.
  return bytes.length < minTextLength ? undefined : jsonExcess(bytes.toString("latin1"));
}
