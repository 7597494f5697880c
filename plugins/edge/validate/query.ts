/** The query of a request as an object for a JSON Schema. */

/**
 * `a=1&b=2&b=3` as `{ a: "1", b: ["2", "3"] }`: form decoding (`+` is a space, percent escapes as UTF-8), names in the
 * order of their first use. The object has no prototype, so that `__proto__` is a name like any other.
 */
export function parseQuery(query: string): Record<string, string | string[]> {
  // An object without prototype is a record of whatever is put into it.
  const members = Object.create(null) as Record<string, string | string[]>;
  for (const [name, value] of new URLSearchParams(query)) {
    const earlier = members[name];
    if (earlier === undefined) members[name] = value;
    else if (typeof earlier === "string") members[name] = [earlier, value];
    else earlier.push(value);
  }
  return members;
}
