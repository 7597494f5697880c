/** Reads the list of subprotocols that a client offers for a WebSocket (RFC 6455 section 4.1, item 10). */

/** An HTTP token, RFC 9110 section 5.6.2. */
const token = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;

/**
 * Returns the names in a `Sec-WebSocket-Protocol` field, in the order of the client's preference. Undefined if the
 * field violates RFC 6455, which requires that every element is a token, and that none is empty or repeated. A missing
 * field results in an empty list.
 */
export function offeredSubprotocols(field: string | undefined): readonly string[] | undefined {
  if (field === undefined) return [];
  // Only spaces and tabs surround an element (RFC 9110 section 5.6.3); `trim` would remove more.
  const names = field.split(",").map((element) => element.replace(/^[ \t]+|[ \t]+$/g, ""));
  const isValid = names.every((name) => token.test(name)) && new Set(names).size === names.length;
  return isValid ? names : undefined;
}
