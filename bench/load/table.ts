/** Tables in Markdown, and the median of several rounds. */

/** Returns NaN for an empty list. */
export function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}

export function printTable(head: readonly string[], rows: readonly (readonly string[])[]): void {
  console.log(`\n| ${head.join(" | ")} |\n|${"---|".repeat(head.length)}`);
  for (const cells of rows) console.log(`| ${cells.join(" | ")} |`);
}
