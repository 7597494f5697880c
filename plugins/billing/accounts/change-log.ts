/** The log of changes. It is shown as the audit log, and a running gateway finds in it what it must read again. */
import type { RunSql, Sql } from "sluice-gateway/plugin";
import type { ChangeAuthor } from "sluice-gateway/services";
import type { AccountStore, Change } from "./account-store.ts";
import type { NewChange } from "./decision.ts";
import { changeColumns, changeFromRow } from "./rows.ts";
import { insertRow, Search } from "./row-statements.ts";

/** Appends changes, in this order. Call it in the transaction that makes the changes. */
export async function recordChanges(
  run: RunSql,
  by: ChangeAuthor,
  changes: readonly NewChange[],
): Promise<void> {
  for (const change of changes) await insertRow(run, "changes", changeColumns(by, change));
}

/** The SELECT for rows that `changeFromRow` reads. */
const selectChanges = `SELECT id, at, actor, action, workspace_id, key_id, CAST(details AS text) AS details, request_id
  FROM sluice.changes`;

export function changeLog({ query }: Sql): Pick<AccountStore, "changes" | "searchChanges"> {
  const select = async (
    search: Search,
    order: "ASC" | "DESC",
    limit: number,
  ): Promise<Change[]> => {
    const end = `ORDER BY id ${order} LIMIT ${search.mark(limit)}`;
    const rows = await query(`${selectChanges} ${search.where} ${end}`, search.values);
    return rows.map(changeFromRow);
  };
  return {
    async changes({ workspaceId, after = 0, limit = Number.MAX_SAFE_INTEGER } = {}) {
      const search = new Search()
        .add(after, (mark) => `id > ${mark}`)
        .add(workspaceId, (mark) => `workspace_id = ${mark}`);
      return select(search, "ASC", limit);
    },
    async searchChanges({ workspaceId, text, before, limit }) {
      const columns = ["actor", "action", "workspace_id", "key_id", "request_id"];
      const search = new Search()
        .add(before, (mark) => `id < ${mark}`)
        .add(workspaceId, (mark) => `workspace_id = ${mark}`)
        .addText(text, ...columns, "CAST(details AS text)");
      return select(search, "DESC", limit);
    },
  };
}
