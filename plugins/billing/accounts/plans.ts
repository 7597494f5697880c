/** The plan of a workspace that is in force; the default capabilities of a key. */
import type { Capability, Workspace } from "sluice-gateway/services";

/** Capabilities of a new key by default. */
export const defaultCapabilities: readonly Capability[] = [
  "ledger:read",
  "platform:read",
  "docs:read",
  "inference",
];

/** Returns the workspace as of `now`: a pending plan that is due becomes its plan. */
export function applyDuePlan(workspace: Workspace, now: number): Workspace {
  const { pendingPlan, pendingPlanAt } = workspace;
  if (pendingPlan === undefined || pendingPlanAt === undefined || now < pendingPlanAt) {
    return workspace;
  }
  return { ...workspace, plan: pendingPlan, pendingPlan: undefined, pendingPlanAt: undefined };
}
