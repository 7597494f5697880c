/** The form of an Idempotency-Key (gateway.md, "Codes" and "Idempotency"; decisions.md section 11). */

export const maxKeyChars = 255;

/** What means something in a regular expression. */
const syntax = /[\\^$.*+?()[\]{}|/]/g;

/**
 * The regular expression that a key matches, and that the OpenAPI document shows. After the prefix 0x21 to 0x7E: neither
 * whitespace nor what cannot be printed. A header that stands twice has a space between its values.
 */
export function keyPattern(prefix: string): string {
  const least = prefix === "" ? 1 : 0;
  const most = maxKeyChars - prefix.length;
  return `^${prefix.replaceAll(syntax, String.raw`\$&`)}[!-~]{${least},${most}}$`;
}
