/** Inserts and updates rows of the accounts in PostgreSQL. */
import type { RunStatement } from "sluice-gateway/plugin";
import type { Columns } from "../rows.ts";

/** `table` and the names of the columns must come from this code. */
export async function insertRow(run: RunStatement, table: string, columns: Columns): Promise<void> {
  const names = Object.keys(columns);
  const marks = names.map((_, index) => `$${index + 1}`).join(", ");
  const statement = `INSERT INTO sluice.${table} (${names.join(", ")}) VALUES (${marks})`;
  await run(statement, Object.values(columns));
}

/** Updates the row with this id. */
export async function updateRow(
  run: RunStatement,
  table: string,
  id: string,
  columns: Columns,
): Promise<void> {
  const names = Object.keys(columns);
  if (names.length === 0) return;
  const assignments = names.map((name, index) => `${name} = $${index + 2}`).join(", ");
  await run(`UPDATE sluice.${table} SET ${assignments} WHERE id = $1`, [
    id,
    ...Object.values(columns),
  ]);
}
