/**
 * The text in a header of revision 2026-07-28: as it is, or, where a header could not hold it, in base64 and marked.
 */

/** What header values cannot hold comes in this form. */
const encodedForm = /^=\?base64\?([A-Za-z0-9+/]*={0,2})\?=$/;

/** Undefined without the header; null when it stands twice, or is marked and no UTF-8 in canonical base64. */
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
