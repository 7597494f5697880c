/** Operations of `AccountStore` on workspaces. Each change is one transaction. */
import type { RunSql } from "sluice-gateway/plugin";
import type { ChangeAuthor, Failed, Workspace } from "sluice-gateway/services";
import type { AccountStore } from "./account-store.ts";
import { recordChanges } from "./change-log.ts";
import { isFailed, notFound, type Decision } from "./decision.ts";
import type { JoinedSql } from "./joined-sql.ts";
import {
  differingColumns,
  workspaceColumns,
  workspaceFromRow,
  insertRow,
  updateRow,
  Search,
} from "./rows.ts";
import * as rules from "./workspace-rules.ts";

type Operations =
  | "createWorkspace"
  | "findWorkspace"
  | "listWorkspaces"
  | "searchWorkspaces"
  | "setWorkspace"
  | "upgrade"
  | "downgrade"
  | "cancelDowngrade"
  | "purchase";

/**
 * Returns the workspace as it is after the changes of all other transactions. They wait until this one has ended: an
 * update that changes nothing takes the lock of the row.
 */
export async function lockWorkspace(run: RunSql, id: string): Promise<Workspace | undefined> {
  const statement = "UPDATE sluice.workspaces SET name = name WHERE id = $1 RETURNING *";
  const [row] = await run(statement, [id]);
  return row && workspaceFromRow(row);
}

export function workspacesIn(sql: JoinedSql): Pick<AccountStore, Operations> {
  type Rule<T> = (stored: Workspace) => Decision<T> | Failed;

  const decide = <T>(
    id: string,
    by: ChangeAuthor,
    rule: Rule<T>,
    store: (run: RunSql, before: Workspace, value: T) => Promise<void>,
  ): Promise<T | Failed> =>
    sql.transaction(async (run) => {
      const stored = await lockWorkspace(run, id);
      if (stored === undefined) return notFound("workspace", id);
      const decided = rule(stored);
      if (isFailed(decided)) return decided;
      await store(run, stored, decided.value);
      await recordChanges(run, by, decided.changes);
      return decided.value;
    });
  const update = (run: RunSql, before: Workspace, after: Workspace): Promise<void> =>
    updateRow(
      run,
      "workspaces",
      after.id,
      differingColumns(workspaceColumns(before), workspaceColumns(after)),
    );
  const change = (
    id: string,
    by: ChangeAuthor,
    rule: Rule<Workspace>,
  ): Promise<Workspace | Failed> => decide(id, by, rule, update);

  return {
    createWorkspace: (wanted, by) =>
      sql.transaction(async (run) => {
        const { value, changes } = rules.newWorkspace(wanted, by);
        await insertRow(run, "workspaces", workspaceColumns(value));
        await recordChanges(run, by, changes);
        return value;
      }),
    async findWorkspace(id) {
      const [row] = await sql.query("SELECT * FROM sluice.workspaces WHERE id = $1", [id]);
      return row && workspaceFromRow(row);
    },
    async listWorkspaces(limit = Number.MAX_SAFE_INTEGER) {
      const statement = "SELECT * FROM sluice.workspaces ORDER BY created_at, id LIMIT $1";
      return (await sql.query(statement, [limit])).map(workspaceFromRow);
    },
    async searchWorkspaces({ text, skip, limit }) {
      const search = new Search().addText(text, "id", "name");
      const page = `LIMIT ${search.mark(limit)} OFFSET ${search.mark(skip)}`;
      const statement = `SELECT * FROM sluice.workspaces ${search.where} ORDER BY created_at DESC, id ${page}`;
      return (await sql.query(statement, search.values)).map(workspaceFromRow);
    },
    setWorkspace: (id, settings, by) =>
      change(id, by, (stored) => rules.changeSettings(stored, settings)),
    upgrade: (id, plan, by) => change(id, by, (stored) => rules.upgrade(stored, plan, by)),
    downgrade: (id, pending, by) =>
      change(id, by, (stored) => rules.downgrade(stored, pending, by)),
    cancelDowngrade: (id, by) => change(id, by, (stored) => rules.cancelDowngrade(stored, by)),
    purchase: (id, amountMilliCu, by) =>
      decide(
        id,
        by,
        (stored) => rules.purchase(stored, amountMilliCu),
        (run, before, { workspace }) => update(run, before, workspace),
      ),
  };
}
