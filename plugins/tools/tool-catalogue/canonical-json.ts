/**
 * Returns JSON with the members of every object in code-unit order (the order of RFC 8785), so that equal values have
 * the same text. `value`: a result of JSON.parse. The text is built by hand because a copied object would list members
 * with integer names first.
 */
export function canonicalJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map((item) => canonicalJson(item)).join(",")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const members = Object.entries(value)
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, member]) => `${JSON.stringify(name)}:${canonicalJson(member)}`);
  return `{${members.join(",")}}`;
}
