/** CSV as in RFC 4180, for files that people open in a spreadsheet. */

/** Returns a line without its line break. Text that a spreadsheet would run as a formula begins with an apostrophe. */
export function csvLine(fields: readonly (string | number | boolean)[]): string {
  return fields
    .map((field) => quoted(typeof field === "string" ? withoutFormula(field) : String(field)))
    .join(",");
}

/** The characters are those that OWASP lists for "CSV Injection" (CWE-1236), with their full-width forms. */
function withoutFormula(field: string): string {
  return /^[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]/.test(field) ? `'${field}` : field;
}

/** Quotes a field with a comma, a quote or a line break, and doubles its quotes (RFC 4180, section 2). */
function quoted(field: string): string {
  return /[",\r\n]/.test(field) ? `"${field.replaceAll('"', '""')}"` : field;
}
