/** Changes of plans by customers in `AccountStore`, with their rules (decisions.md section 10). Each call is one transaction. */
import type { DatabaseSync } from "node:sqlite";
import type { ChangeAuthor, Failed, PlanName, Workspace } from "sluice-gateway/services";
import { transaction } from "sluice-gateway/store";
import type { PendingPlan } from "../account-store.ts";
import { recordChange } from "./change-log.ts";
import { conflict, notFound } from "../failed.ts";
import { applyDuePlan, planNames } from "../plans.ts";
import { findWorkspace, writePlan } from "./workspaces.ts";

export function upgrade(
  db: DatabaseSync,
  id: string,
  plan: PlanName,
  by: ChangeAuthor,
): Workspace | Failed {
  return change(db, id, by, (current) => {
    if (rank(plan) <= rank(current.plan)) {
      return conflict(`${plan} is not an upgrade from ${current.plan}`);
    }
    recordChange(db, by, {
      action: "workspace.upgrade",
      workspaceId: id,
      details: { from: current.plan, to: plan, calledOff: current.pendingPlan },
    });
    return { ...current, plan, pendingPlan: undefined, pendingPlanAt: undefined };
  });
}

export function downgrade(
  db: DatabaseSync,
  id: string,
  pending: PendingPlan,
  by: ChangeAuthor,
): Workspace | Failed {
  return change(db, id, by, (current) => {
    if (rank(pending.plan) >= rank(current.plan)) {
      return conflict(`${pending.plan} is not a downgrade from ${current.plan}`);
    }
    recordChange(db, by, {
      action: "workspace.downgrade",
      workspaceId: id,
      details: { from: current.plan, to: pending.plan, effectiveAt: pending.at },
    });
    return { ...current, pendingPlan: pending.plan, pendingPlanAt: pending.at };
  });
}

export function cancelDowngrade(
  db: DatabaseSync,
  id: string,
  by: ChangeAuthor,
): Workspace | Failed {
  return change(db, id, by, (current) => {
    const { plan, pendingPlan } = current;
    if (pendingPlan === undefined) return conflict("no downgrade is pending");
    recordChange(db, by, {
      action: "workspace.cancel-downgrade",
      workspaceId: id,
      details: { plan, calledOff: pendingPlan },
    });
    return { ...current, pendingPlan: undefined, pendingPlanAt: undefined };
  });
}

/** Stores the workspace that `decide` returns for its current state. */
function change(
  db: DatabaseSync,
  id: string,
  by: ChangeAuthor,
  decide: (current: Workspace) => Workspace | Failed,
): Workspace | Failed {
  return transaction(db, () => {
    const stored = findWorkspace(db, id);
    if (stored === undefined) return notFound("workspace", id);
    const decided = decide(applyDuePlan(stored, by.at));
    if (!("failed" in decided)) writePlan(db, decided);
    return decided;
  });
}

function rank(plan: PlanName): number {
  return planNames.indexOf(plan);
}
