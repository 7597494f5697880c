/** Other characters could forge a line of a log or a header, or be encoded differently (decisions.md section 4). */
export function isRequestId(value: unknown): value is string {
  return typeof value === "string" && /^[!-~]{1,128}$/.test(value);
}
