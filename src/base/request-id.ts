/**
 * Accepts 1 to 128 visible ASCII characters (decisions.md section 4). Others could forge a line of a log or a header,
 * or be encoded differently by readers.
 */
export function isRequestId(value: unknown): value is string {
  return typeof value === "string" && /^[!-~]{1,128}$/.test(value);
}
