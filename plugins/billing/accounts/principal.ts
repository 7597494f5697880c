/** From a key and its workspace as stored to the principal that the plugins see, and how long it holds. */
import type { ApiKey, KeyPrincipal, Plan, PlanName, Workspace } from "../../../src/plugin.ts";
import { addressList } from "../../../src/address-list.ts";
import { applyDuePlan } from "./plans.ts";

/** The terms of each plan as pipeline.yaml gives them. */
export type Plans = Readonly<Record<PlanName, Omit<Plan, "name">>>;

/** What the gateway remembers of a key. The principal holds while `planFrom <= now < planUntil`. */
export interface KeyEntry {
  readonly key: ApiKey;
  /** As stored, with a pending plan that may be due. */
  readonly workspace: Workspace;
  readonly expiresAt: number;
  /** Whether the key may be used from an address; undefined: from anywhere. */
  readonly allows: ((address: string) => boolean) | undefined;
  principal: KeyPrincipal;
  planFrom: number;
  planUntil: number;
  /** Time of the last request; 0: none yet. */
  usedAt: number;
  /** The `usedAt` that is on disk. */
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

/** The principal at `now` and the span in which it stays true, which a pending plan bounds on one side. */
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
