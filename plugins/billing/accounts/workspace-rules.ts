/** The rules for changes of workspaces and plans (decisions.md section 10), without a database. */
import {
  planNames,
  type ChangeAuthor,
  type Failed,
  type NewWorkspace,
  type PlanName,
  type Workspace,
} from "sluice-gateway/services";
import type { PendingPlan, Purchase, WorkspaceSettings } from "./account-store.ts";
import { conflict, type Decision } from "./decision.ts";
import { newId } from "./key-text.ts";
import { applyDuePlan } from "./principal.ts";

type Result = Decision<Workspace> | Failed;

export function newWorkspace(wanted: NewWorkspace, by: ChangeAuthor): Decision<Workspace> {
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
  const change = {
    action: "workspace.create",
    workspaceId: workspace.id,
    details: wanted,
  } as const;
  return { value: workspace, changes: [change] };
}

export function changeSettings(
  stored: Workspace,
  settings: WorkspaceSettings,
): Decision<Workspace> {
  const { plan, overageLimitCuMilli: limit } = settings;
  const value: Workspace = {
    ...stored,
    ...(plan !== undefined && { plan, ...noPendingPlan }),
    ...(limit !== undefined && { overageLimitCuMilli: limit ?? undefined }),
  };
  const change = { action: "workspace.set", workspaceId: stored.id, details: settings } as const;
  return { value, changes: [change] };
}

export function upgrade(stored: Workspace, plan: PlanName, by: ChangeAuthor): Result {
  const current = applyDuePlan(stored, by.at);
  if (rank(plan) <= rank(current.plan)) {
    return conflict(`${plan} is not an upgrade from ${current.plan}`);
  }
  const details = { from: current.plan, to: plan, calledOff: current.pendingPlan };
  const change = { action: "workspace.upgrade", workspaceId: stored.id, details } as const;
  return { value: { ...current, plan, ...noPendingPlan }, changes: [change] };
}

export function downgrade(stored: Workspace, pending: PendingPlan, by: ChangeAuthor): Result {
  const current = applyDuePlan(stored, by.at);
  if (rank(pending.plan) >= rank(current.plan)) {
    return conflict(`${pending.plan} is not a downgrade from ${current.plan}`);
  }
  const details = { from: current.plan, to: pending.plan, effectiveAt: pending.at };
  const change = { action: "workspace.downgrade", workspaceId: stored.id, details } as const;
  const value = { ...current, pendingPlan: pending.plan, pendingPlanAt: pending.at };
  return { value, changes: [change] };
}

export function cancelDowngrade(stored: Workspace, by: ChangeAuthor): Result {
  const current = applyDuePlan(stored, by.at);
  const { plan, pendingPlan } = current;
  if (pendingPlan === undefined) return conflict("no downgrade is pending");
  const details = { plan, calledOff: pendingPlan };
  const change = { action: "workspace.cancel-downgrade", workspaceId: stored.id, details } as const;
  return { value: { ...current, ...noPendingPlan }, changes: [change] };
}

export function purchase(stored: Workspace, amountMilliCu: number): Decision<Purchase> | Failed {
  checkAmount(amountMilliCu);
  const total = stored.purchasedTotalMilliCu + amountMilliCu;
  if (!Number.isSafeInteger(total)) {
    return conflict("the purchased credit would exceed 2^53 - 1 milli-CU");
  }
  const purchaseId = newId("pur");
  const details = { purchaseId, amountCuMilli: amountMilliCu };
  const change = { action: "workspace.purchase", workspaceId: stored.id, details } as const;
  const workspace = { ...stored, purchasedTotalMilliCu: total };
  return { value: { purchaseId, workspace }, changes: [change] };
}

const noPendingPlan = { pendingPlan: undefined, pendingPlanAt: undefined } as const;

function rank(plan: PlanName): number {
  return planNames.indexOf(plan);
}

/** Throws RangeError if the amount is not a positive safe integer, which is a bug of the caller. */
export function checkAmount(amountMilliCu: number): void {
  if (Number.isSafeInteger(amountMilliCu) && amountMilliCu > 0) return;
  throw new RangeError(`cannot add ${amountMilliCu} milli-CU of purchased credit`);
}
