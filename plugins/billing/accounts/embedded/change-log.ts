/** The log of changes. It is shown as the audit log, and a running gateway finds in it what it must read again. */
import type { DatabaseSync } from "node:sqlite";
import type { ChangeAuthor, ChangeSearch } from "sluice-gateway/services";
import type { Change, ChangePage } from "../account-store.ts";
import type { NewChange } from "../decision.ts";
import { changeColumns, changeFromRow } from "../rows.ts";
import { insertRow } from "./write-row.ts";

/** Appends changes. Call it in the transaction that makes the changes. */
export function recordChanges(
  db: DatabaseSync,
  by: ChangeAuthor,
  changes: readonly NewChange[],
): void {
  for (const change of changes) insertRow(db, "changes", changeColumns(by, change));
}

/** Returns changes in the order of commits. */
export function listChanges(db: DatabaseSync, page: ChangePage = {}): Change[] {
  const { workspaceId, after = 0, limit = -1 } = page;
  const order = "ORDER BY id LIMIT ?";
  const rows =
    workspaceId === undefined
      ? db.prepare(`SELECT * FROM changes WHERE id > ? ${order}`).all(after, limit)
      : db
          .prepare(`SELECT * FROM changes WHERE id > ? AND workspace_id = ? ${order}`)
          .all(after, workspaceId, limit);
  return rows.map(changeFromRow);
}

/** Returns changes, newest first. */
export function searchChanges(db: DatabaseSync, search: ChangeSearch): Change[] {
  const { workspaceId = null, text, before = null, limit } = search;
  const rows = db.prepare(
    `SELECT * FROM changes
     WHERE (:before IS NULL OR id < :before) AND (:workspace IS NULL OR workspace_id = :workspace)
       AND (:text = '' OR instr(lower(concat_ws(char(10), actor, action, workspace_id, key_id, request_id, details)),
         lower(:text)) > 0)
     ORDER BY id DESC LIMIT :limit`,
  );
  return rows.all({ workspace: workspaceId, before, text, limit }).map(changeFromRow);
}
