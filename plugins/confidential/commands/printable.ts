/** Some texts quote certificates and names of other servers, whose control characters a terminal would execute. */
export function printable(text: string): string {
  return text.replaceAll(/[^\P{Cc}\n]/gu, "?");
}
