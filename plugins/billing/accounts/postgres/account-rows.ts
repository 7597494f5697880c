/** Reads and writes the rows of the accounts in PostgreSQL. */
import type { RunStatement } from "sluice-gateway/plugin";
import { isObject } from "sluice-gateway/toolkit";
import type { ChangeAuthor, IssuedKey, KeyRecord, Workspace } from "sluice-gateway/services";
import type { Row } from "sluice-gateway/store";
import type { StoredKey } from "../account-store.ts";
import type { NewChange } from "../decision.ts";
import { hashKey } from "../key-text.ts";
import {
  changeColumns,
  differingColumns,
  keyColumns,
  storedKeyFromRow,
  workspaceColumns,
  workspaceFromRow,
  type Columns,
} from "../rows.ts";

/** `table` and the names of the columns must come from this code. */
export async function insertRow(run: RunStatement, table: string, columns: Columns): Promise<void> {
  const names = Object.keys(columns);
  const marks = names.map((_, index) => `$${index + 1}`).join(", ");
  const statement = `INSERT INTO sluice.${table} (${names.join(", ")}) VALUES (${marks})`;
  await run(statement, Object.values(columns));
}

/** Updates the row with this id. */
async function updateRow(
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

/** Appends changes to the audit log, in this order. */
export async function recordChanges(
  run: RunStatement,
  by: ChangeAuthor,
  changes: readonly NewChange[],
): Promise<void> {
  for (const change of changes) await insertRow(run, "changes", changeColumns(by, change));
}

/** Returns the SELECT for rows that `keyRecordFromRow` reads. `more`: further columns. */
export function selectKeys(more = ""): string {
  return `SELECT keys.*, last_used_at${more} FROM sluice.keys LEFT JOIN sluice.key_use ON key_use.key_id = keys.id`;
}

/** The SELECT for rows that `storedKey` reads. */
export const selectStoredKeys = `SELECT keys.*, row_to_json(workspaces) AS workspace
  FROM sluice.keys JOIN sluice.workspaces ON workspaces.id = keys.workspace_id`;

export function storedKey(row: Row): StoredKey {
  const { workspace } = row;
  if (!isObject(workspace)) throw new TypeError("column workspace is not an object");
  return storedKeyFromRow(row, workspaceFromRow(workspace));
}

export async function findWorkspace(run: RunStatement, id: string): Promise<Workspace | undefined> {
  const [row] = await run("SELECT * FROM sluice.workspaces WHERE id = $1", [id]);
  return row && workspaceFromRow(row);
}

export function updateWorkspace(
  run: RunStatement,
  before: Workspace,
  after: Workspace,
): Promise<void> {
  const columns = differingColumns(workspaceColumns(before), workspaceColumns(after));
  return updateRow(run, "workspaces", after.id, columns);
}

export function insertKey(run: RunStatement, { key, text: keyText }: IssuedKey): Promise<void> {
  return insertRow(run, "keys", { ...keyColumns(key), hash: hashKey(keyText) });
}

export function updateKey(run: RunStatement, before: KeyRecord, after: KeyRecord): Promise<void> {
  const columns = differingColumns(keyColumns(before), keyColumns(after));
  return updateRow(run, "keys", after.id, columns);
}
