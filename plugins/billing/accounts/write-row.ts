/** Inserts and updates rows of the accounts, and collects the conditions of a search. */
import type { RunSql } from "sluice-gateway/plugin";
import { valueRows } from "sluice-gateway/internal/store";
import type { Columns } from "./rows.ts";

/** `table` and the names of the columns must come from this code. */
export async function insertRow(run: RunSql, table: string, columns: Columns): Promise<void> {
  const names = Object.keys(columns);
  const statement = `INSERT INTO sluice.${table} (${names.join(", ")}) VALUES ${valueRows(1, names.length)}`;
  await run(statement, Object.values(columns));
}

/** Updates the row with this id. */
export async function updateRow(
  run: RunSql,
  table: string,
  id: string,
  columns: Columns,
): Promise<void> {
  const names = Object.keys(columns);
  if (names.length === 0) return;
  const assignments = names.map((name, index) => `${name} = $${index + 2}`).join(", ");
  const statement = `UPDATE sluice.${table} SET ${assignments} WHERE id = $1`;
  await run(statement, [id, ...Object.values(columns)]);
}
