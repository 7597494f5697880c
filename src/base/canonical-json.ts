/** The maximum depth of strict JSON. It keeps the recursion from exceeding the stack. */
const maxDepth = 128;

/**
 * Returns the text of RFC 8785 (JSON Canonicalization Scheme) for a value that JSON.parse could return. `undefined` if
 * it has none: a lone surrogate, a number that is not finite, anything that JSON cannot express, or more than 128
 * levels. Members that are undefined are left out. It is not enough to build an object with sorted members, because
 * objects list names that look like integers first.
 */
export function canonicalJson(value: unknown): string | undefined {
  return textOf(value, 0);
}

function textOf(value: unknown, depth: number): string | undefined {
  if (value === null || typeof value === "boolean") return String(value);
  // JSON.stringify writes what RFC 8785, section 3.2.2 requires: the shortest digits and only necessary escapes.
  if (typeof value === "number") return Number.isFinite(value) ? JSON.stringify(value) : undefined;
  if (typeof value === "string") return value.isWellFormed() ? JSON.stringify(value) : undefined;
  if (typeof value !== "object" || depth >= maxDepth) return undefined;
  return Array.isArray(value) ? arrayText(value, depth + 1) : objectText(value, depth + 1);
}

function arrayText(items: readonly unknown[], depth: number): string | undefined {
  const parts: string[] = [];
  for (const item of items) {
    const text = textOf(item, depth);
    if (text === undefined) return undefined;
    parts.push(text);
  }
  return `[${parts.join(",")}]`;
}

function objectText(value: object, depth: number): string | undefined {
  const parts: string[] = [];
  // Strings are compared by UTF-16 code units, as RFC 8785, section 3.2.3 requires.
  const members = Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1));
  for (const [name, member] of members) {
    if (member === undefined) continue;
    const text = textOf(member, depth);
    if (text === undefined || !name.isWellFormed()) return undefined;
    parts.push(`${JSON.stringify(name)}:${text}`);
  }
  return `{${parts.join(",")}}`;
}

export function stableJson(value: unknown): string {
  return canonicalJson(value) ?? JSON.stringify(value);
}
