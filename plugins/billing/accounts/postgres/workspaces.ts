/** Operations of `AccountStore` on workspaces, in PostgreSQL. A function that takes a ChangeAuthor needs a transaction. */
import type { RunStatement } from "sluice-gateway/plugin";
import type {
  ChangeAuthor,
  Failed,
  NewWorkspace,
  PlanName,
  Workspace,
  WorkspaceSearch,
} from "sluice-gateway/services";
import type { PendingPlan, Purchase, WorkspaceSettings } from "../account-store.ts";
import { isFailed, type Decision } from "../decision.ts";
import { notFound } from "../failed.ts";
import { differingColumns, workspaceColumns, workspaceFromRow } from "../rows.ts";
import * as rules from "../workspace-rules.ts";
import { recordChanges } from "./change-log.ts";
import { insertRow, updateRow } from "./write-row.ts";

export async function createWorkspace(
  run: RunStatement,
  wanted: NewWorkspace,
  by: ChangeAuthor,
): Promise<Workspace> {
  const { value, changes } = rules.newWorkspace(wanted, by);
  await insertRow(run, "workspaces", workspaceColumns(value));
  await recordChanges(run, by, changes);
  return value;
}

export async function findWorkspace(run: RunStatement, id: string): Promise<Workspace | undefined> {
  const [row] = await run("SELECT * FROM sluice.workspaces WHERE id = $1", [id]);
  return row && workspaceFromRow(row);
}

export async function listWorkspaces(
  run: RunStatement,
  limit?: number,
): Promise<readonly Workspace[]> {
  const statement = "SELECT * FROM sluice.workspaces ORDER BY created_at, id LIMIT $1";
  return (await run(statement, [limit ?? null])).map(workspaceFromRow);
}

/** Returns workspaces, newest first. */
export async function searchWorkspaces(
  run: RunStatement,
  { text, skip, limit }: WorkspaceSearch,
): Promise<readonly Workspace[]> {
  const statement = `SELECT * FROM sluice.workspaces
    WHERE position(lower($1) IN lower(concat_ws(E'\\n', id, name))) > 0
    ORDER BY created_at DESC, id LIMIT $2 OFFSET $3`;
  return (await run(statement, [text, limit, skip])).map(workspaceFromRow);
}

export function setWorkspace(
  run: RunStatement,
  id: string,
  settings: WorkspaceSettings,
  by: ChangeAuthor,
): Promise<Workspace | Failed> {
  return change(run, id, by, (stored) => rules.changeSettings(stored, settings));
}

export function upgrade(
  run: RunStatement,
  id: string,
  plan: PlanName,
  by: ChangeAuthor,
): Promise<Workspace | Failed> {
  return change(run, id, by, (stored) => rules.upgrade(stored, plan, by));
}

export function downgrade(
  run: RunStatement,
  id: string,
  pending: PendingPlan,
  by: ChangeAuthor,
): Promise<Workspace | Failed> {
  return change(run, id, by, (stored) => rules.downgrade(stored, pending, by));
}

export function cancelDowngrade(
  run: RunStatement,
  id: string,
  by: ChangeAuthor,
): Promise<Workspace | Failed> {
  return change(run, id, by, (stored) => rules.cancelDowngrade(stored, by));
}

export async function purchase(
  run: RunStatement,
  id: string,
  amountMilliCu: number,
  by: ChangeAuthor,
): Promise<Purchase | Failed> {
  let purchaseId = "";
  const changed = await change(run, id, by, (stored) => {
    const decided = rules.purchase(stored, amountMilliCu);
    if (isFailed(decided)) return decided;
    ({ purchaseId } = decided.value);
    return { value: decided.value.workspace, changes: decided.changes };
  });
  if (isFailed(changed)) return changed;
  const bought = { workspace_id: id, amount_cu_milli: amountMilliCu, bought_at: by.at };
  await insertRow(run, "purchases", { id: purchaseId, ...bought });
  return { purchaseId, workspace: changed };
}

/** Stores the workspace that `rule` returns for the stored one. */
async function change(
  run: RunStatement,
  id: string,
  by: ChangeAuthor,
  rule: (stored: Workspace) => Decision<Workspace> | Failed,
): Promise<Workspace | Failed> {
  const stored = await findWorkspace(run, id);
  if (stored === undefined) return notFound("workspace", id);
  const decided = rule(stored);
  if (isFailed(decided)) return decided;
  const { value, changes } = decided;
  const columns = differingColumns(workspaceColumns(stored), workspaceColumns(value));
  await updateRow(run, "workspaces", id, columns);
  await recordChanges(run, by, changes);
  return value;
}
