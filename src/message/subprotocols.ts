/** Reads the list of subprotocols that a client offers for a WebSocket (RFC 6455 section 4.1, item 10). */

/** RFC 9110 section 5.6.2. */
const token = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;

/**
 * Names in the order of the client's preference. Undefined if the field violates RFC 6455, which requires that every
 * element is a token, and that none is empty or repeated.
 */
export function offeredSubprotocols(field: string | undefined): readonly string[] | undefined {
  if (field === undefined) return [];
  const names = field.split(",").map(withoutSpace);
  const isValid = names.every((name) => token.test(name)) && new Set(names).size === names.length;
  return isValid ? names : undefined;
}

/**
 * Removes the spaces and tabs around an element (RFC 9110 section 5.6.3); `trim` would remove more. A regular expression
 * that ends with `[ \t]+$` takes time in proportion to the square of the number of spaces.
 */
function withoutSpace(element: string): string {
  let start = 0;
  let end = element.length;
  while (isSpace(element[start])) start++;
  while (end > start && isSpace(element[end - 1])) end--;
  return element.slice(start, end);
}

function isSpace(char: string | undefined): boolean {
  return char === " " || char === "\t";
}
