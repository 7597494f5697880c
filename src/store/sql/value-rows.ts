/** Returns the parameters of `count` rows for `INSERT … VALUES`, such as `($1, $2), ($3, $4)`. */
export function valueRows(count: number, columns: number): string {
  const row = (first: number): string =>
    `(${Array.from({ length: columns }, (_, column) => `$${first + column}`).join(", ")})`;
  return Array.from({ length: count }, (_, index) => row(index * columns + 1)).join(", ");
}
