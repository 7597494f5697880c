/** The words of accounts: plans, what a key may do by default, and which plan is in force when. */
import type { Capability, PlanName, Workspace } from "../../../src/plugin.ts";

/** From the smallest to the largest. */
export const planNames: readonly PlanName[] = ["free", "developer", "startup", "enterprise"];

/** What a key gets when nothing is said. */
export const defaultCapabilities: readonly Capability[] = [
  "ledger:read",
  "platform:read",
  "docs:read",
  "inference",
];

/** The workspace as it stands at `now`: a pending plan whose time has come is its plan. */
export function applyDuePlan(workspace: Workspace, now: number): Workspace {
  const { pendingPlan, pendingPlanAt } = workspace;
  if (pendingPlan === undefined || pendingPlanAt === undefined || now < pendingPlanAt) {
    return workspace;
  }
  return { ...workspace, plan: pendingPlan, pendingPlan: undefined, pendingPlanAt: undefined };
}
