/** The differences between the SQL of PostgreSQL, in which all texts are written, and that of SQLite. */
import { commitOrder, commonFunctions } from "../postgres/commit-order.ts";

/** The parts of scripts that differ between the dialects. Queries do not need them. */
export interface Dialect {
  readonly functions: string;
  /**
   * A column whose numbers ascend in the order of commits and are never used again. `column`: its definition. `after`:
   * statements that follow the one that creates the table. `lock`: a number of its own per table.
   */
  readonly numbered: (
    table: string,
    column: string,
    lock: number,
  ) => { readonly column: string; readonly after: string };
  /** Returns statements that make the store refuse to change or delete rows of a table whose key is `id`. */
  readonly appendOnly: (table: string) => string;
}

const refusal = (table: string): string => `rows of ${table} are append-only`;

export const postgresDialect: Dialect = {
  functions: commonFunctions,
  numbered: (table, column, lock) => ({
    column: `${column} bigint UNIQUE`,
    after: commitOrder(table, column, lock),
  }),
  appendOnly: (table) => `
CREATE FUNCTION sluice.refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION '${refusal(table)}';
END $$;
CREATE TRIGGER ${table}_are_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON sluice.${table}
  FOR EACH STATEMENT EXECUTE FUNCTION sluice.refuse_change();
`,
};

/** SQLite has one writer at a time, so its row ids ascend in the order of commits. The driver adds the functions. */
export const sqliteDialect: Dialect = {
  functions: "",
  numbered: (_, column) => ({ column: `${column} integer PRIMARY KEY AUTOINCREMENT`, after: "" }),
  // REPLACE deletes rows without running the trigger on deletions, so a trigger on inserts prevents it.
  appendOnly: (table) =>
    [
      ["updated", "BEFORE UPDATE ON", ""],
      ["deleted", "BEFORE DELETE ON", ""],
      ["replaced", "BEFORE INSERT ON", `WHEN EXISTS (SELECT 1 FROM ${table} WHERE id = NEW.id)`],
    ]
      .map(
        ([name, event, condition]) => `
CREATE TRIGGER ${table}_are_not_${name} ${event} ${table} ${condition}
  BEGIN SELECT RAISE(ABORT, '${refusal(table)}'); END;`,
      )
      .join(""),
};

/**
 * Returns the same text for SQLite, which has no schemas, no types `bytea` and `json`, and compares texts by code point
 * unless a collation is named. In SQLite, `$1` would be the name of a parameter and not its place.
 */
export function sqliteText(text: string): string {
  return text
    .replaceAll("sluice.", "")
    .replaceAll(' COLLATE "C"', "")
    .replaceAll(/\bbytea\b/g, "blob")
    .replaceAll(/\bjson\b/g, "text")
    .replaceAll(/\$(\d)/g, "?$1");
}

/** Returns the parameters of `count` rows for `INSERT … VALUES`, such as `($1, $2), ($3, $4)`. */
export function valueRows(count: number, columns: number): string {
  const row = (first: number): string =>
    `(${Array.from({ length: columns }, (_, column) => `$${first + column}`).join(", ")})`;
  return Array.from({ length: count }, (_, index) => row(index * columns + 1)).join(", ");
}
