/** Inserts and updates rows of the accounts database. */
import type { DatabaseSync } from "node:sqlite";
import type { Columns } from "../rows.ts";

/** `table` and the names of the columns must come from this code. */
export function insertRow(db: DatabaseSync, table: string, columns: Columns): void {
  const names = Object.keys(columns);
  const marks = names.map(() => "?").join(", ");
  db.prepare(`INSERT INTO ${table} (${names.join(", ")}) VALUES (${marks})`).run(
    ...Object.values(columns),
  );
}

/** Updates the row with this id. */
export function updateRow(db: DatabaseSync, table: string, id: string, columns: Columns): void {
  const names = Object.keys(columns);
  if (names.length === 0) return;
  const assignments = names.map((name) => `${name} = ?`).join(", ");
  db.prepare(`UPDATE ${table} SET ${assignments} WHERE id = ?`).run(...Object.values(columns), id);
}
