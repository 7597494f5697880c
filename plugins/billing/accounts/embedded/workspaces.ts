/** Operations of `AccountStore` on workspaces. Each call is one transaction. */
import type { DatabaseSync } from "node:sqlite";
import type {
  ChangeAuthor,
  Failed,
  NewWorkspace,
  PlanName,
  Workspace,
  WorkspaceSearch,
} from "sluice-gateway/services";
import { transaction } from "sluice-gateway/store";
import type { PendingPlan, Purchase, WorkspaceSettings } from "../account-store.ts";
import { isFailed, type Decision } from "../decision.ts";
import { notFound } from "../failed.ts";
import { differingColumns, workspaceColumns, workspaceFromRow } from "../rows.ts";
import * as rules from "../workspace-rules.ts";
import { recordChanges } from "./change-log.ts";
import { insertRow, updateRow } from "./write-row.ts";

export function createWorkspace(
  db: DatabaseSync,
  wanted: NewWorkspace,
  by: ChangeAuthor,
): Workspace {
  const { value, changes } = rules.newWorkspace(wanted, by);
  transaction(db, () => {
    insertRow(db, "workspaces", workspaceColumns(value));
    recordChanges(db, by, changes);
  });
  return value;
}

export function findWorkspace(db: DatabaseSync, id: string): Workspace | undefined {
  const row = db.prepare("SELECT * FROM workspaces WHERE id = ?").get(id);
  return row === undefined ? undefined : workspaceFromRow(row);
}

export function listWorkspaces(db: DatabaseSync, limit = -1): Workspace[] {
  return db
    .prepare("SELECT * FROM workspaces ORDER BY created_at, id LIMIT ?")
    .all(limit)
    .map(workspaceFromRow);
}

/** Returns workspaces, newest first. */
export function searchWorkspaces(
  db: DatabaseSync,
  { text, skip, limit }: WorkspaceSearch,
): Workspace[] {
  const rows = db.prepare(
    `SELECT * FROM workspaces WHERE instr(lower(id || char(10) || name), lower(:text)) > 0
     ORDER BY rowid DESC LIMIT :limit OFFSET :skip`,
  );
  return rows.all({ text, limit, skip }).map(workspaceFromRow);
}

export function setWorkspace(
  db: DatabaseSync,
  id: string,
  settings: WorkspaceSettings,
  by: ChangeAuthor,
): Workspace | Failed {
  return change(db, id, by, (stored) => rules.changeSettings(stored, settings));
}

export function upgrade(
  db: DatabaseSync,
  id: string,
  plan: PlanName,
  by: ChangeAuthor,
): Workspace | Failed {
  return change(db, id, by, (stored) => rules.upgrade(stored, plan, by));
}

export function downgrade(
  db: DatabaseSync,
  id: string,
  pending: PendingPlan,
  by: ChangeAuthor,
): Workspace | Failed {
  return change(db, id, by, (stored) => rules.downgrade(stored, pending, by));
}

export function cancelDowngrade(
  db: DatabaseSync,
  id: string,
  by: ChangeAuthor,
): Workspace | Failed {
  return change(db, id, by, (stored) => rules.cancelDowngrade(stored, by));
}

export function purchase(
  db: DatabaseSync,
  id: string,
  amountMilliCu: number,
  by: ChangeAuthor,
): Purchase | Failed {
  let purchaseId = "";
  const changed = change(db, id, by, (stored) => {
    const decided = rules.purchase(stored, amountMilliCu);
    if (isFailed(decided)) return decided;
    ({ purchaseId } = decided.value);
    const bought = { workspace_id: id, amount_cu_milli: amountMilliCu, bought_at: by.at };
    insertRow(db, "purchases", { id: purchaseId, ...bought });
    return { value: decided.value.workspace, changes: decided.changes };
  });
  return isFailed(changed) ? changed : { purchaseId, workspace: changed };
}

/** Stores the workspace that `rule` returns for the stored one. */
function change(
  db: DatabaseSync,
  id: string,
  by: ChangeAuthor,
  rule: (stored: Workspace) => Decision<Workspace> | Failed,
): Workspace | Failed {
  return transaction(db, () => {
    const stored = findWorkspace(db, id);
    if (stored === undefined) return notFound("workspace", id);
    const decided = rule(stored);
    if (isFailed(decided)) return decided;
    const { value, changes } = decided;
    const columns = differingColumns(workspaceColumns(stored), workspaceColumns(value));
    updateRow(db, "workspaces", id, columns);
    recordChanges(db, by, changes);
    return value;
  });
}
