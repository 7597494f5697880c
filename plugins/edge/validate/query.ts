/** Parses the query of a request to an object for a JSON Schema. */

/**
 * Parses `a=1&b=2&b=3` to `{ a: "1", b: ["2", "3"] }` with form decoding (`+` is a space, percent escapes are UTF-8).
 * Names are in the order of their first use. The object has no prototype, so that `__proto__` is an ordinary name.
 */
export function parseQuery(query: string): Record<string, string | string[]> {
  // An object without a prototype is a record of the values that are added to it.
  const members = Object.create(null) as Record<string, string | string[]>;
  for (const [name, value] of new URLSearchParams(query)) {
    const earlier = members[name];
    if (earlier === undefined) members[name] = value;
    else if (typeof earlier === "string") members[name] = [earlier, value];
    else earlier.push(value);
  }
  return members;
}
