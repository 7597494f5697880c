/** Operations of `AccountStore` on workspaces. Each call is one transaction. */
import type { DatabaseSync } from "node:sqlite";
import type { ChangeAuthor, Failed, NewWorkspace, Workspace } from "sluice-gateway/services";
import {
  number,
  oneOf,
  optionalNumber,
  optionalText,
  text,
  transaction,
  type Row,
} from "sluice-gateway/store";
import type { Purchase, WorkspaceSettings } from "../account-store.ts";
import { checkAmount } from "../check-amount.ts";
import { recordChange } from "./change-log.ts";
import { conflict, notFound } from "../failed.ts";
import { newId } from "../key-text.ts";
import { planNames } from "../plans.ts";

export function createWorkspace(
  db: DatabaseSync,
  wanted: NewWorkspace,
  by: ChangeAuthor,
): Workspace {
  const workspace: Workspace = {
    id: newId("ws"),
    name: wanted.name,
    plan: wanted.plan,
    pendingPlan: undefined,
    pendingPlanAt: undefined,
    purchasedTotalMilliCu: 0,
    overageLimitCuMilli: wanted.overageLimitCuMilli,
    createdAt: by.at,
  };
  transaction(db, () => {
    db.prepare(
      "INSERT INTO workspaces (id, name, plan, overage_limit_cu_milli, created_at) VALUES (?, ?, ?, ?, ?)",
    ).run(
      workspace.id,
      workspace.name,
      workspace.plan,
      workspace.overageLimitCuMilli ?? null,
      workspace.createdAt,
    );
    recordChange(db, by, {
      action: "workspace.create",
      workspaceId: workspace.id,
      details: wanted,
    });
  });
  return workspace;
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

export function setWorkspace(
  db: DatabaseSync,
  id: string,
  settings: WorkspaceSettings,
  by: ChangeAuthor,
): Workspace | Failed {
  return transaction(db, () => {
    const stored = findWorkspace(db, id);
    if (stored === undefined) return notFound("workspace", id);
    if (settings.plan !== undefined) {
      writePlan(db, { id, plan: settings.plan, pendingPlan: undefined, pendingPlanAt: undefined });
    }
    if (settings.overageLimitCuMilli !== undefined) {
      db.prepare("UPDATE workspaces SET overage_limit_cu_milli = ? WHERE id = ?").run(
        settings.overageLimitCuMilli,
        id,
      );
    }
    recordChange(db, by, { action: "workspace.set", workspaceId: id, details: settings });
    return findWorkspace(db, id) ?? notFound("workspace", id);
  });
}

export function purchase(
  db: DatabaseSync,
  id: string,
  amountMilliCu: number,
  by: ChangeAuthor,
): Purchase | Failed {
  checkAmount(amountMilliCu);
  return transaction(db, () => {
    const stored = findWorkspace(db, id);
    if (stored === undefined) return notFound("workspace", id);
    const total = stored.purchasedTotalMilliCu + amountMilliCu;
    if (!Number.isSafeInteger(total))
      return conflict("the purchased credit would exceed 2^53 - 1 milli-CU");
    const purchaseId = newId("pur");
    db.prepare("INSERT INTO purchases VALUES (?, ?, ?, ?)").run(
      purchaseId,
      id,
      amountMilliCu,
      by.at,
    );
    db.prepare("UPDATE workspaces SET purchased_total_cu_milli = ? WHERE id = ?").run(total, id);
    recordChange(db, by, {
      action: "workspace.purchase",
      workspaceId: id,
      details: { purchaseId, amountCuMilli: amountMilliCu },
    });
    return { purchaseId, workspace: { ...stored, purchasedTotalMilliCu: total } };
  });
}

/** Stores the plan and the pending plan of `workspace`. */
export function writePlan(
  db: DatabaseSync,
  workspace: Pick<Workspace, "id" | "plan" | "pendingPlan" | "pendingPlanAt">,
): void {
  const { id, plan, pendingPlan, pendingPlanAt } = workspace;
  db.prepare(
    "UPDATE workspaces SET plan = ?, pending_plan = ?, pending_plan_at = ? WHERE id = ?",
  ).run(plan, pendingPlan ?? null, pendingPlanAt ?? null, id);
}

/** Converts a row of `workspaces`. */
export function workspaceFromRow(row: Row): Workspace {
  const isPending = optionalText(row, "pending_plan") !== undefined;
  return {
    id: text(row, "id"),
    name: text(row, "name"),
    plan: oneOf(row, "plan", planNames),
    pendingPlan: isPending ? oneOf(row, "pending_plan", planNames) : undefined,
    pendingPlanAt: optionalNumber(row, "pending_plan_at"),
    purchasedTotalMilliCu: number(row, "purchased_total_cu_milli"),
    overageLimitCuMilli: optionalNumber(row, "overage_limit_cu_milli"),
    createdAt: number(row, "created_at"),
  };
}
