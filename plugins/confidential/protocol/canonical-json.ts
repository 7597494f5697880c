/** RFC 8785, JSON Canonicalization Scheme: one text for equal values, so that what is signed can be made again. */
import { utf8 } from "./encoding.ts";
import type { Bytes } from "../verify/binary-text.ts";

/** As deep as strict JSON may be; keeps the recursion from running out of stack. */
const maxDepth = 128;

/**
 * The canonical bytes of a value as JSON.parse gives it; undefined where there are none: a lone surrogate, a number
 * that is not finite, anything that JSON does not know, nesting beyond 128. Members that are undefined are left out.
 */
export function canonicalBytes(value: unknown): Bytes | undefined {
  const text = canonicalText(value, 0);
  return text === undefined ? undefined : utf8(text);
}

function canonicalText(value: unknown, depth: number): string | undefined {
  if (value === null || typeof value === "boolean") return String(value);
  // Both are what RFC 8785, 3.2.2 asks for: the shortest digits, and only the escapes that are needed.
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
  // Sorted by UTF-16 code units, which is how strings compare.
  const members = Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1));
  for (const [name, member] of members) {
    if (member === undefined) continue;
    const text = canonicalText(member, depth + 1);
    if (text === undefined || !name.isWellFormed()) return undefined;
    parts.push(`${JSON.stringify(name)}:${text}`);
  }
  return `{${parts.join(",")}}`;
}
