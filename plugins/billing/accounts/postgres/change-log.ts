/** The audit log in PostgreSQL, which the change feed also reads. */
import type { RunStatement } from "sluice-gateway/plugin";
import type { ChangeAuthor, ChangeSearch } from "sluice-gateway/services";
import type { Change, ChangePage } from "../account-store.ts";
import type { NewChange } from "../decision.ts";
import { changeColumns, changeFromRow } from "../rows.ts";
import { insertRow } from "./write-row.ts";

/** Appends changes, in this order. */
export async function recordChanges(
  run: RunStatement,
  by: ChangeAuthor,
  changes: readonly NewChange[],
): Promise<void> {
  for (const change of changes) await insertRow(run, "changes", changeColumns(by, change));
}

/** The SELECT for rows that `changeFromRow` reads. */
const selectChanges = `SELECT id, at, actor, action, workspace_id, key_id, details::text AS details, request_id
  FROM sluice.changes`;

/** Returns changes in the order of commits. */
export async function listChanges(
  run: RunStatement,
  { workspaceId, after = 0, limit }: ChangePage = {},
): Promise<readonly Change[]> {
  const rows = await run(
    `${selectChanges} WHERE id > $1 AND ($2::text IS NULL OR workspace_id = $2) ORDER BY id LIMIT $3`,
    [after, workspaceId ?? null, limit ?? null],
  );
  return rows.map(changeFromRow);
}

/** Returns changes, newest first. */
export async function searchChanges(
  run: RunStatement,
  { workspaceId, text, before, limit }: ChangeSearch,
): Promise<readonly Change[]> {
  const rows = await run(
    `${selectChanges}
     WHERE ($1::bigint IS NULL OR id < $1) AND ($2::text IS NULL OR workspace_id = $2)
       AND ($3 = '' OR position(lower($3) IN lower(concat_ws(E'\\n', actor, action, workspace_id, key_id,
         request_id, details::text))) > 0)
     ORDER BY id DESC LIMIT $4`,
    [before ?? null, workspaceId ?? null, text, limit],
  );
  return rows.map(changeFromRow);
}
