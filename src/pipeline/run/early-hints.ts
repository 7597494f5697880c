/** 103 Early Hints (RFC 8297). */

/**
 * Returns flat fields in the form of `writeEarlyHints`. Undefined if there is no link, which `writeEarlyHints` needs.
 */
export function earlyHints(
  headers: readonly string[],
): Record<string, string | string[]> | undefined {
  const hints: Record<string, string | string[]> = {};
  const links: string[] = [];
  for (let at = 0; at + 1 < headers.length; at += 2) {
    const name = (headers[at] ?? "").toLowerCase();
    const value = headers[at + 1] ?? "";
    // A field can hold several links, separated by the commas before each `<` (RFC 8288 section 3).
    if (name === "link") links.push(...value.split(/,\s*(?=<)/));
    else hints[name] = value;
  }
  return links.length === 0 ? undefined : { link: links, ...hints };
}
