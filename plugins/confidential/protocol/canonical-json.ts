/** RFC 8785, JSON Canonicalization Scheme: equal values have the same text, so that signed bytes can be reproduced. */
import { utf8 } from "./encoding.ts";
import type { Bytes } from "../verify/binary-text.ts";

/** Maximum depth, the same as in strict JSON. It prevents a stack overflow. */
const maxDepth = 128;

/**
 * Returns the canonical bytes of a value as returned by JSON.parse. Undefined if it has none, because it contains a
 * lone surrogate, a number that is not finite, a type that JSON does not have, or nesting deeper than 128. Members
 * whose value is undefined are omitted.
 */
export function canonicalBytes(value: unknown): Bytes | undefined {
  const text = canonicalText(value, 0);
  return text === undefined ? undefined : utf8(text);
}

function canonicalText(value: unknown, depth: number): string | undefined {
  if (value === null || typeof value === "boolean") return String(value);
  // JSON.stringify meets RFC 8785, 3.2.2 for numbers (shortest digits) and strings (only the necessary escapes).
  if (typeof value === "number") return Number.isFinite(value) ? JSON.stringify(value) : undefined;
  if (typeof value === "string") return value.isWellFormed() ? JSON.stringify(value) : undefined;
  if (typeof value !== "object" || depth >= maxDepth) return undefined;
  const parts: string[] = [];
  if (Array.isArray(value)) {
    for (const item of value) {
      const text = canonicalText(item, depth + 1);
      if (text === undefined) return undefined;
      parts.push(text);
    }
    return `[${parts.join(",")}]`;
  }
  // Members are sorted by UTF-16 code units. JavaScript compares strings in the same way.
  const members = Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1));
  for (const [name, member] of members) {
    if (member === undefined) continue;
    const text = canonicalText(member, depth + 1);
    if (text === undefined || !name.isWellFormed()) return undefined;
    parts.push(`${JSON.stringify(name)}:${text}`);
  }
  return `{${parts.join(",")}}`;
}
