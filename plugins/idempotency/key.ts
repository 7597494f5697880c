/** The form of an Idempotency-Key (gateway.md, "Codes" and "Idempotency"; decisions.md section 11). */

export const mostKeyChars = 255;

/**
 * 0x21 to 0x7E: neither whitespace nor what cannot be printed. A header that stands twice has a space between its
 * values.
 */
const visible = /^[\x21-\x7e]+$/;

export function isIdempotencyKey(
  header: string | readonly string[],
  prefix: string,
): header is string {
  if (typeof header !== "string" || header.length > mostKeyChars) return false;
  return header.startsWith(prefix) && visible.test(header);
}
