/** Removes what a terminal would execute: some texts quote certificates and names of other servers. */
export function printable(text: string): string {
  return text.replaceAll(/[^\P{Cc}\n]/gu, "?");
}
