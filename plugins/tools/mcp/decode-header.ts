/**
 * A header value of revision 2026-07-28 is plain text, or base64 with a marker for text that a header cannot contain.
 */

const encodedForm = /^=\?base64\?([A-Za-z0-9+/]*={0,2})\?=$/;

/**
 * Undefined if the header is missing. Null if it is repeated, or has the marker but is not UTF-8 in canonical base64.
 */
export function decodeHeader(
  value: string | readonly string[] | undefined,
): string | null | undefined {
  if (value === undefined) return undefined;
  if (typeof value !== "string") return null;
  if (!value.startsWith("=?base64?") || !value.endsWith("?=")) return value;
  const encoded = encodedForm.exec(value)?.[1];
  if (encoded === undefined) return null;
  const text = Buffer.from(encoded, "base64").toString("utf8");
  return Buffer.from(text, "utf8").toString("base64") === encoded ? text : null;
}
