/** Creates the principal that plugins see from a stored key and its workspace, and computes how long it is valid. */
import { addressList } from "sluice-gateway/internal/http";
import type { ApiKey, KeyPrincipal, Plan, PlanName, Workspace } from "sluice-gateway/services";
import { applyDuePlan } from "./plans.ts";

/** Terms of each plan, from pipeline.yaml. */
export type Plans = Readonly<Record<PlanName, Omit<Plan, "name">>>;

/** The cached state of a key. The principal is valid while `planFrom <= now < planUntil`. */
export interface KeyEntry {
  readonly key: ApiKey;
  /** The stored workspace. Its pending plan may be due. */
  readonly workspace: Workspace;
  readonly expiresAt: number;
  /** Returns whether the key may be used from an address. Undefined if it may be used from anywhere. */
  readonly allows: ((address: string) => boolean) | undefined;
  principal: KeyPrincipal;
  planFrom: number;
  planUntil: number;
  /** Time of the last request. 0 if there was none. */
  usedAt: number;
  /** Value of `usedAt` that is on disk. */
  savedUsedAt: number;
}

export function makeKeyEntry(
  key: ApiKey,
  workspace: Workspace,
  plans: Plans,
  now: number,
): KeyEntry {
  return {
    key,
    workspace,
    expiresAt: key.expiresAt ?? Infinity,
    allows: key.allowedAddresses && addressList(key.allowedAddresses),
    ...principalAt(key, workspace, plans, now),
    usedAt: 0,
    savedUsedAt: 0,
  };
}

/** Returns the principal at `now` and the span in which it is valid. A pending plan limits the span on one side. */
export function principalAt(
  key: ApiKey,
  workspace: Workspace,
  plans: Plans,
  now: number,
): Pick<KeyEntry, "principal" | "planFrom" | "planUntil"> {
  const changesAt = workspace.pendingPlanAt ?? Infinity;
  const current = applyDuePlan(workspace, now);
  const plan: Plan = { name: current.plan, ...plans[current.plan] };
  const rps = Math.min(key.rpsLimit ?? Infinity, plan.rps);
  return {
    principal: { kind: "key", key, workspace: current, plan, rps },
    planFrom: now < changesAt ? -Infinity : changesAt,
    planUntil: now < changesAt ? changesAt : Infinity,
  };
}
